/**
 * Who makes and who reads each value, while a graph is being rewritten. Knows the nodes that are needed and no others: what a
 * rewrite frees is taken out at once. Decides nothing about rewrites.
 */
import { type Graph, type Node, readsOf, type Value } from "../graph/graph.js";

const nobody: ReadonlySet<Node> = new Set();

/** The producers and readers of one graph, kept up to date by whoever changes it. */
export class GraphIndex {
  readonly #producers = new Map<Value, Node>();
  /** Most values have one reader: it stands alone. */
  readonly #readers = new Map<Value, Node | Set<Node>>();
  readonly #outputs: ReadonlySet<Value>;

  constructor(graph: Graph) {
    this.#outputs = new Set(graph.outputs);
    for (const node of graph.nodes) this.add(node);
  }

  /** The node that makes a value; undefined for inputs and initializers. */
  producerOf(value: Value): Node | undefined {
    return this.#producers.get(value);
  }

  /** The nodes that read a value, in their operands or through their subgraphs. */
  readersOf(value: Value): ReadonlySet<Node> {
    const readers = this.#readers.get(value);
    return readers === undefined ? nobody : readers instanceof Set ? readers : new Set([readers]);
  }

  /** True if the graph hands the value out. */
  isOutput(value: Value): boolean {
    return this.#outputs.has(value);
  }

  /** True if the node is still part of the graph. */
  has(node: Node): boolean {
    return node.outputs.some((value) => value !== undefined && this.#producers.get(value) === node);
  }

  /** Takes a node in. It makes its outputs from now on, whoever made them before. */
  add(node: Node): void {
    for (const value of node.outputs) if (value !== undefined) this.#producers.set(value, node);
    for (const value of readsOf(node)) {
      const readers = this.#readers.get(value);
      if (readers === undefined) this.#readers.set(value, node);
      else if (readers instanceof Set) readers.add(node);
      else if (readers !== node) this.#readers.set(value, new Set([readers, node]));
    }
  }

  /** Takes a node out. */
  remove(node: Node): void {
    for (const value of node.outputs)
      if (value !== undefined && this.#producers.get(value) === node) this.#producers.delete(value);
    for (const value of readsOf(node)) {
      const readers = this.#readers.get(value);
      if (readers instanceof Set) readers.delete(node);
      else if (readers === node) this.#readers.delete(value);
    }
  }

  /** The nodes that nothing needs any more once `roots` are gone, those included; what makes a value of `kept` stays. */
  freedBy(roots: Iterable<Node>, kept: ReadonlySet<Value>): Set<Node> {
    const freed = new Set(roots);
    const needed = (value: Value | undefined): boolean =>
      value !== undefined && (kept.has(value) || this.isNeededBeside(value, freed));
    // A set hands out what is added to it while it is walked.
    for (const node of freed) {
      for (const value of readsOf(node)) {
        const producer = this.#producers.get(value);
        if (producer !== undefined && !producer.outputs.some(needed)) freed.add(producer);
      }
    }
    return freed;
  }

  /** True if one of the values is among `made`, or comes of one of them by whatever nodes in between. */
  needs(values: Iterable<Value>, made: ReadonlySet<Value | undefined>): boolean {
    // A set hands out what is added to it while it is walked.
    const behind = new Set(values);
    for (const value of behind) {
      if (made.has(value)) return true;
      const producer = this.#producers.get(value);
      if (producer !== undefined) for (const read of readsOf(producer)) behind.add(read);
    }
    return false;
  }

  /** True if the value is an output, or if a node that is not among `gone` reads it. */
  isNeededBeside(value: Value, gone: ReadonlySet<Node>): boolean {
    if (this.#outputs.has(value)) return true;
    const readers = this.#readers.get(value);
    if (!(readers instanceof Set)) return readers !== undefined && !gone.has(readers);
    for (const reader of readers) if (!gone.has(reader)) return true;
    return false;
  }
}
