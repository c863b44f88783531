/**
 * An order of nodes that can take further edges: "this reader before that writer". Says whether an edge would close a circle
 * before it is added, and lays the nodes out in the end, as near to the file's order as the edges allow.
 */
import type { Graph, Node } from "../graph/graph.js";
import { readsOf } from "../graph/graph.js";

/** The order of one graph's nodes, by position in the file. */
export class Order {
  readonly #position: ReadonlyMap<Node, number>;
  readonly #nodes: readonly Node[];
  readonly #after: Set<number>[]; // position → positions that must come later
  #reordered = false;

  constructor(graph: Graph) {
    this.#nodes = graph.nodes;
    this.#position = new Map(graph.nodes.map((node, position) => [node, position]));
    this.#after = graph.nodes.map(() => new Set<number>());
    const makers = new Map(
      graph.nodes.flatMap((node, position) => node.outputs.map((value) => [value, position] as const)),
    );
    graph.nodes.forEach((node, position) => {
      for (const value of readsOf(node)) {
        const maker = makers.get(value);
        if (maker !== undefined) this.#after[maker].add(position);
      }
    });
  }

  /** True if `later` must come after `earlier`, through whatever lies between them. */
  mustFollow(earlier: Node, later: Node): boolean {
    const from = this.#position.get(earlier)!;
    const to = this.#position.get(later)!;
    // Without extra edges against the file's order, nothing earlier in the file can follow.
    if (!this.#reordered && to < from) return false;
    const visited = new Set<number>([from]);
    const pending = [from];
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      for (const next of this.#after[at]) {
        if (next === to) return true;
        if (!visited.has(next)) {
          visited.add(next);
          pending.push(next);
        }
      }
    }
    return false;
  }

  /** Puts `first` before `second`. The caller has checked that no circle closes. */
  require(first: Node, second: Node): void {
    const from = this.#position.get(first)!;
    const to = this.#position.get(second)!;
    if (from > to) this.#reordered = true;
    this.#after[from].add(to);
  }

  /** The nodes in an order that keeps every edge, the file's order where edges leave a choice. */
  layOut(): readonly Node[] {
    if (!this.#reordered) return this.#nodes;
    const waiting = this.#nodes.map(() => 0);
    for (const next of this.#after) for (const position of next) waiting[position]++;
    const result: Node[] = [];
    const ready = new MinimumHeap();
    waiting.forEach((count, position) => count === 0 && ready.push(position));
    for (let at = ready.pop(); at !== undefined; at = ready.pop()) {
      result.push(this.#nodes[at]);
      for (const next of this.#after[at]) if (--waiting[next] === 0) ready.push(next);
    }
    return result;
  }
}

/** A binary heap of numbers, smallest first. */
class MinimumHeap {
  readonly #items: number[] = [];

  push(item: number): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0 && items[(at - 1) >> 1] > items[at]) {
      const parent = (at - 1) >> 1;
      [items[at], items[parent]] = [items[parent], items[at]];
      at = parent;
    }
  }

  pop(): number | undefined {
    const items = this.#items;
    const top = items[0];
    const last = items.pop();
    if (items.length > 0 && last !== undefined) {
      items[0] = last;
      for (let at = 0; ;) {
        const left = 2 * at + 1;
        let least = at;
        if (left < items.length && items[left] < items[least]) least = left;
        if (left + 1 < items.length && items[left + 1] < items[least]) least = left + 1;
        if (least === at) break;
        [items[at], items[least]] = [items[least], items[at]];
        at = least;
      }
    }
    return top;
  }
}
