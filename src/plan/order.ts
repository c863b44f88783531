/**
 * An order of nodes that can take further edges: "this reader before that writer". Says whether an edge would close a circle
 * before it is added, and lays the nodes out in the end, as near to the file's order as the edges allow. It looks at so many nodes and
 * no more: where the question stays open, the answer is that the edge cannot be had.
 */
import { mostOrderSteps } from "../base/limits.js";
import type { Graph, Node } from "../graph/graph.js";
import { readsOf } from "../graph/graph.js";

/** Whether one node must come after another: one that must; none; or not found out. */
type Follower = Node | "none" | "unknown";

/** The order of one graph's nodes, by position in the file. */
export class Order {
  readonly #position: ReadonlyMap<Node, number>;
  readonly #nodes: readonly Node[];
  readonly #after: number[][]; // position → positions that must come later
  /** The last position that an edge leads back from, against the file's order; −1 where there is none. */
  #lastBack = -1;
  /** Nodes that may still be looked at. */
  #steps: number;

  constructor(graph: Graph) {
    this.#nodes = graph.nodes;
    this.#position = new Map(graph.nodes.map((node, position) => [node, position]));
    this.#after = graph.nodes.map(() => []);
    this.#steps = mostOrderSteps(graph.nodes.length);
    const makers = new Map(
      graph.nodes.flatMap((node, position) => node.outputs.map((value) => [value, position] as const)),
    );
    graph.nodes.forEach((node, position) => {
      for (const value of readsOf(node)) {
        const maker = makers.get(value);
        if (maker !== undefined) this.#after[maker].push(position);
      }
    });
  }

  /** Where a node stands in the file. */
  positionOf(node: Node): number {
    return this.#position.get(node)!;
  }

  /** One of `others` that must come after `node`, through whatever lies between them. `last` is where the last of them stands. */
  followerOf(node: Node, others: ReadonlySet<Node>, last: number): Follower {
    // Nothing behind both the others and every edge that leads back can lead to one of them.
    const end = Math.max(last, this.#lastBack);
    const from = this.#position.get(node)!;
    const visited = new Set<number>([from]);
    const pending = [from];
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      for (const next of this.#after[at]) {
        if (--this.#steps < 0) return "unknown";
        if (next > end || visited.has(next)) continue;
        if (others.has(this.#nodes[next])) return this.#nodes[next];
        visited.add(next);
        pending.push(next);
      }
    }
    return "none";
  }

  /** Puts `first` before `second`. The caller has checked that no circle closes. */
  require(first: Node, second: Node): void {
    const from = this.#position.get(first)!;
    const to = this.#position.get(second)!;
    if (from > to) this.#lastBack = Math.max(this.#lastBack, from);
    this.#after[from].push(to);
  }

  /** The nodes in an order that keeps every edge, the file's order where edges leave a choice. */
  layOut(): readonly Node[] {
    if (this.#lastBack < 0) return this.#nodes;
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
