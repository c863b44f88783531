/**
 * Rewrites: wherever a pattern fits, other nodes take the place of those it spells out. A place is taken only if nothing outside reads
 * the nodes in between, if the declarations of the new nodes accept their operands, and if the values that they take over keep their types and, whatever
 * symbols stand for, their shapes.
 */
import { InsituError, unreachable } from "../base/error.js";
import { type AttributeValue, readAttributes } from "../graph/attribute.js";
import { int } from "../graph/attribute-values.js";
import { newestOpset } from "../graph/build.js";
import { inferOutputs } from "../graph/call.js";
import { isKnown, sameDim, sameShape } from "../graph/dim.js";
import { type Fact, factOfView } from "../graph/fact.js";
import { type Graph, type Node, readsOf, type Value } from "../graph/graph.js";
import type { OperatorSet } from "../graph/op.js";
import { writeIntegers, writeNumbers } from "../tensor/access.js";
import type { ElementType } from "../tensor/element-type.js";
import { View } from "../tensor/view.js";
import { GraphIndex } from "./graph-index.js";
import { Match, type Pattern } from "./match.js";

/** A pass: takes a graph with facts and gives another. */
export type Pass = (graph: Graph, operators: OperatorSet) => Graph;

/** One rewrite. */
interface Rewrite {
  /** What the first output of the last node must look like. */
  readonly pattern: Pattern;
  /**
   * Makes the new nodes through `edit`, one of which takes over `root`. False leaves the place as it is, and so does an operand that a
   * declaration refuses.
   */
  replace(match: Match, edit: Edit, root: Value): boolean;
  /** The rewrite leaves inner results to their other readers, or makes them itself. */
  readonly keepsInner?: boolean;
}

/** How a node is made. */
interface NodeOptions {
  /** ONNX's own domain when left out. */
  readonly domain?: string;
  /** The newest version of the operator when left out. */
  readonly opset?: number;
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
  /** Values that the node makes from now on; one fresh value when left out. */
  readonly outputs?: readonly (Value | undefined)[];
}

/** Applies a rewrite wherever it fits, the graph's last nodes first: larger patterns end later and are seen before what they contain. */
export function rewrite(graph: Graph, operators: OperatorSet, rule: Rewrite): Graph {
  const index = indices.get(graph) ?? new GraphIndex(graph);
  indices.delete(graph);
  const edit = new Edit(graph, operators, index);
  const nothing = Match.at(index);
  const { from } = rule.pattern;
  for (let at = graph.nodes.length - 1; at >= 0; at--) {
    const node = graph.nodes[at];
    const root = node.outputs[0];
    if (root === undefined || (from !== undefined && !from.has(node.op.name)) || !index.has(node)) continue;
    for (const match of rule.pattern(root, nothing)) if (edit.apply(rule, match, node, root)) break;
  }
  const result = edit.finish();
  indices.set(result, index);
  return result;
}

/** Indices of graphs as the last rewrite left them: most rewrites change nothing, and the next one asks the same. */
const indices = new WeakMap<Graph, GraphIndex>();

/** A graph under change: what rewrites make their nodes with. */
export class Edit {
  readonly index: GraphIndex;
  readonly #graph: Graph;
  readonly #operators: OperatorSet;
  /** Names that are taken, once one is asked for; and by the name that was asked for, how many there are of it. */
  #names: Set<string> | undefined;
  readonly #counts = new Map<string, number>();
  /** New nodes by the node in whose place they stand. */
  readonly #placed = new Map<Node, readonly Node[]>();
  /** What was made before, by what it is: the same one serves again. */
  readonly #made = new Map<string, Value>();
  readonly #numbers = new Map<Value, number>();
  /** Of the place at hand. */
  #fresh: Node[] = [];
  #keys: string[] = [];

  constructor(graph: Graph, operators: OperatorSet, index: GraphIndex) {
    this.#graph = graph;
    this.#operators = operators;
    this.index = index;
  }

  /** Tries one place; true if new nodes stand there now. */
  apply(rule: Rewrite, match: Match, node: Node, root: Value): boolean {
    if (!rule.keepsInner) {
      const freed = this.index.freedBy([node], match.operands());
      if (!match.nodes.every((inner) => freed.has(inner))) return false;
    }
    this.#fresh = [];
    this.#keys = [];
    if (!accepted(() => rule.replace(match, this, root))) return this.#undo();
    const taken = new Set(this.#fresh.flatMap((made) => made.outputs));
    if (!taken.has(root)) unreachable(`a rewrite of ${node.label} makes no "${root.name}"`);
    const replaced = [...taken].flatMap((value) => (value === undefined ? [] : (this.index.producerOf(value) ?? [])));
    const reads = new Set(this.#fresh.flatMap((made) => [...readsOf(made)]));
    const freed = this.index.freedBy(replaced, reads);
    // A replaced node may have more outputs than are taken over: nobody may need those.
    const lost = replaced.flatMap((gone) => gone.outputs).filter((value) => value !== undefined && !taken.has(value));
    if (lost.some((value) => reads.has(value!) || this.index.isNeededBeside(value!, freed))) return this.#undo();
    // Several results that become one node's may stand before and behind each other: that node would need itself.
    const over = new Set(
      [...taken].filter((value) => value !== undefined && this.index.producerOf(value) !== undefined),
    );
    if (over.size > 1 && this.index.needs(readFromOutside(this.#fresh), over)) return this.#undo();
    for (const gone of freed) this.index.remove(gone);
    for (const made of this.#fresh) this.index.add(made);
    this.#placed.set(node, this.#fresh);
    return true;
  }

  /** Makes a node and returns its first output. Throws where the declaration refuses the operands. */
  node(name: string, inputs: readonly (Value | undefined)[], options: NodeOptions = {}): Value {
    const { domain = "", opset = domain === "" ? newestOpset : 1, attributes = {} } = options;
    const op = this.#operators.find(domain, name, opset);
    if (op === undefined) throw this.#operators.missing(domain, name, opset, "a rewrite");
    const key = JSON.stringify(
      [domain, name, opset, inputs.map((value) => this.#numberOf(value)), attributes],
      (_, value) => (typeof value === "bigint" ? String(value) : (value as unknown)),
    );
    const before = options.outputs === undefined ? this.#made.get(key) : undefined;
    // One that a later rewrite freed is made anew.
    if (before !== undefined && this.producerOf(before) !== undefined) return before;
    const outputs = options.outputs ?? [{ name: this.#freshName(inputs[0]?.name ?? "", name) }];
    const first = outputs.find((value) => value !== undefined) ?? unreachable(`${name} is made without outputs`);
    const label = `${name} of "${first.name}"`;
    const given = new Map(Object.entries(attributes));
    const attrs = readAttributes(op.attrs, given, label);
    const wanted = outputs.map((value) => value !== undefined);
    const node = { name: "", label, op, opset, inputs, outputs, attributes: given, attrs, wanted, bodies: new Map() };
    const facts = inferOutputs(
      node,
      inputs.map((value) => value?.fact),
      () => unreachable(`${label} has no subgraphs`),
    );
    outputs.forEach((value, at) => {
      if (value === undefined) return;
      if (value.fact === undefined) value.fact = facts[at];
      else if (!alike(value.fact, facts[at]))
        throw new InsituError("shape-mismatch", `${label} would change "${value.name}"`);
    });
    this.#fresh.push(node);
    if (options.outputs === undefined) {
      this.#made.set(key, first);
      this.#keys.push(key);
    }
    return first;
  }

  /** The node that makes a value, those of the place at hand included. */
  producerOf(value: Value): Node | undefined {
    return this.#fresh.find((node) => node.outputs.includes(value)) ?? this.index.producerOf(value);
  }

  /** A constant. Of those with the same key and of the same `of`, one is made. */
  constant(name: string, make: () => View, key: string = "", of?: Value): Value {
    const full = `${name} ${key} ${this.#numberOf(of)}`;
    const before = this.#made.get(full);
    if (before !== undefined) return before;
    const view = make();
    const made = { name: this.#freshName("", name), initializer: view, fact: factOfView(view) };
    this.#made.set(full, made);
    return made;
  }

  /** A constant list of 64-bit integers. */
  integers(list: readonly number[]): Value {
    const make = (): View => {
      const view = View.allocate("int64", [list.length]);
      writeIntegers(view, list);
      return view;
    };
    return this.constant("integers", make, list.join(","));
  }

  /** A dimension of a value as a tensor of one integer: read from a graph input that has it too, so that one node serves all. */
  dimension(value: Value, axis: number): Value {
    const dim = value.fact?.shape?.[axis];
    if (dim !== undefined && isKnown(dim)) return this.integers([dim]);
    for (const input of this.#graph.inputs) {
      const at = input.fact?.shape?.findIndex((own) => dim !== undefined && sameDim(own, dim)) ?? -1;
      if (at >= 0) return this.node("Shape", [input], { attributes: { start: int(at), end: int(at + 1) } });
    }
    return this.node("Shape", [value], { attributes: { start: int(axis), end: int(axis + 1) } });
  }

  /** A constant tensor of one number throughout. */
  filled(type: ElementType, shape: readonly number[], number: number): Value {
    const make = (): View => {
      const view = View.allocate(type, shape);
      writeNumbers(view, new Float64Array(view.size).fill(number));
      return view;
    };
    return this.constant("filled", make, `${type} ${shape.join(",")} ${number}`);
  }

  /** The graph with all changes, its nodes in an order that computes every value before it is used. */
  finish(): Graph {
    if (this.#placed.size === 0) return this.#graph;
    const nodes: Node[] = [];
    for (const node of this.#graph.nodes) {
      for (const made of this.#placed.get(node) ?? []) if (this.index.has(made)) nodes.push(made);
      if (this.index.has(node)) nodes.push(node);
    }
    return { ...this.#graph, nodes: inOrder(nodes) };
  }

  /** Forgets the nodes of the place at hand. */
  #undo(): false {
    for (const key of this.#keys) this.#made.delete(key);
    return false;
  }

  #numberOf(value: Value | undefined): number {
    if (value === undefined) return -1;
    const number = this.#numbers.get(value) ?? this.#numbers.size;
    this.#numbers.set(value, number);
    return number;
  }

  #freshName(from: string, what: string): string {
    const names = (this.#names ??= namesOf(this.#graph));
    const base = from === "" ? what : `${from}/${what}`;
    let name = base;
    let count = this.#counts.get(base) ?? 2;
    for (; names.has(name); count++) name = `${base}_${count}`;
    if (name !== base) this.#counts.set(base, count);
    names.add(name);
    return name;
  }
}

/** What nodes read that none before them among these makes. */
function readFromOutside(nodes: readonly Node[]): Set<Value> {
  const [read, made] = [new Set<Value>(), new Set<Value | undefined>()];
  for (const node of nodes) {
    for (const value of readsOf(node)) if (!made.has(value)) read.add(value);
    for (const value of node.outputs) made.add(value);
  }
  return read;
}

/** True if the replacement was made; false where it gave up or a declaration refused it. */
function accepted(replace: () => boolean): boolean {
  try {
    return replace();
  } catch (error) {
    if (error instanceof InsituError && error.code !== "internal") return false;
    throw error;
  }
}

/** True if both have one type, and one shape for every value of their symbols: shapes that only may be the same are not. */
const alike = (before: Fact, after: Fact): boolean =>
  before.type === after.type &&
  before.shape !== undefined &&
  after.shape !== undefined &&
  sameShape(before.shape, after.shape);

function namesOf(graph: Graph): Set<string> {
  const names = new Set(graph.inputs.map((value) => value.name));
  for (const node of graph.nodes)
    for (const value of [...node.inputs, ...node.outputs]) if (value !== undefined) names.add(value.name);
  return names;
}

/** The nodes with each behind those that make its operands; otherwise in the order given. */
function inOrder(nodes: readonly Node[]): Node[] {
  const producers = new Map<Value, Node>();
  for (const node of nodes) for (const value of node.outputs) if (value !== undefined) producers.set(value, node);
  const done = new Set<Node>();
  const waiting = new Set<Node>();
  for (const start of nodes) {
    if (done.has(start)) continue;
    // The last one's operands are made first; `next` is the one to look at.
    const pending = [{ node: start, reads: readsOf(start), next: 0 }];
    waiting.add(start);
    for (let last = pending.at(-1); last !== undefined; last = pending.at(-1)) {
      const producer = last.next < last.reads.length ? producers.get(last.reads[last.next++]) : undefined;
      if (producer === undefined || done.has(producer)) {
        if (last.next < last.reads.length) continue;
        done.add(last.node);
        waiting.delete(last.node);
        pending.pop();
      } else if (waiting.has(producer)) unreachable(`${last.node.label} depends on itself after a rewrite`);
      else {
        waiting.add(producer);
        pending.push({ node: producer, reads: readsOf(producer), next: 0 });
      }
    }
  }
  return [...done];
}
