/**
 * A model under change: nodes that take the place of others, helper nodes, inputs and outputs, by name. Nothing of the model it began from
 * is written into; what no change touches keeps its identity, and so its bytes.
 */
import { InsituError } from "#insitu/base/error.js";
import { type AttributeInput, initializer, node as makeNode } from "#insitu/onnx/build.js";
import type { Model, ModelAttribute, ModelGraph, ModelNode, ModelTensor, ModelValue } from "#insitu/onnx/model.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";
import { writeIntegers, writeNumbers } from "#insitu/tensor/access.js";

/** How a node is made beside its operator and operands. */
interface NodeOptions {
  readonly attributes?: Readonly<Record<string, AttributeInput>>;
  readonly domain?: string;
  /** What the node is called; its first output's name when left out. */
  readonly name?: string;
  /** The name of its output; a fresh one when left out. */
  readonly output?: string;
  /** What a fresh output is called after the prefix; the operator when left out. */
  readonly as?: string;
}

/** In front of every name that is made up. */
const prefix = "insitu/";

/** The domain of operators that are no one else's. */
const insitu = "insitu";

/** A model under change. */
export class ModelEdit {
  readonly #model: Model;
  readonly #names = new Set<string>();
  readonly #initializers = new Map<string, ModelTensor>();
  readonly #made = new Map<string, string>();
  readonly #front: ModelNode[] = [];
  readonly #replaced = new Map<string, readonly ModelNode[]>();
  readonly #inputs = new Map<string, ModelValue | undefined>();
  readonly #outputs = new Map<string, ModelValue>();
  readonly #added: ModelValue[] = [];
  readonly #own = new Set<ModelNode>();
  readonly #redirected = new Map<string, string>();
  /** Where nodes go that are made now. */
  #target: ModelNode[];

  constructor(model: Model) {
    this.#model = model;
    this.#target = this.#front;
    for (const name of namesIn(model.graph)) this.#names.add(name);
  }

  /** A name that nothing in the model has. */
  fresh(base: string): string {
    let name = `${prefix}${base}`;
    for (let count = 2; this.#names.has(name); count++) name = `${prefix}${base}_${count}`;
    this.#names.add(name);
    return name;
  }

  /** True if something in the model has the name. */
  isTaken(name: string): boolean {
    return this.#names.has(name);
  }

  /** Makes a node and returns the name of its output. Helpers of the same operator, operands and attributes are made once. */
  node(opType: string, inputs: readonly string[], options: NodeOptions = {}): string {
    const { attributes = {}, domain = "", output, as = opType } = options;
    const shared = this.#target === this.#front && output === undefined;
    const key = shared ? JSON.stringify([domain, opType, inputs, attributes], plain) : "";
    const before = this.#made.get(key);
    if (shared && before !== undefined) return before;
    const made = output ?? this.fresh(as);
    const node = makeNode(opType, inputs, [made], attributes, { domain, name: options.name ?? made });
    this.#target.push(node);
    this.#own.add(node);
    if (shared) this.#made.set(key, made);
    return made;
  }

  /** The nodes that `build` makes stand at the front, where only inputs and one another are read. */
  atFront<T>(build: () => T): T {
    const before = this.#target;
    this.#target = this.#front;
    try {
      return build();
    } finally {
      this.#target = before;
    }
  }

  /** The nodes that `build` makes take the place of the one that makes a value; one of them makes the value now. */
  replace(value: string, build: () => void): void {
    this.replaceBy(value, this.attempt(build));
  }

  /** These nodes take the place of the one that makes a value. */
  replaceBy(value: string, nodes: readonly ModelNode[]): void {
    this.#replaced.set(value, nodes);
  }

  /** The nodes that `build` makes, which stand nowhere yet. */
  attempt(build: () => void): readonly ModelNode[] {
    const before = this.#target;
    const made: ModelNode[] = [];
    this.#target = made;
    try {
      build();
    } finally {
      this.#target = before;
    }
    return made;
  }

  /** Nodes of the model that read one value read another from now on. */
  redirect(from: string, to: string): void {
    this.#redirected.set(from, to);
  }

  /** True if the node was made here. */
  isOwn(node: ModelNode): boolean {
    return this.#own.has(node);
  }

  /** True if new nodes make a value. */
  isReplaced(value: string): boolean {
    return this.#replaced.has(value);
  }

  /** A constant list of whole numbers. */
  integers(list: readonly number[], dims: readonly number[] = [list.length]): string {
    return this.#constant("int64", dims, list, (view) => writeIntegers(view, list));
  }

  /** A constant of one number. */
  scalar(type: ElementType, number: number): string {
    return this.#constant(type, [], [number], (view) =>
      type === "int64" || type === "int32" ? writeIntegers(view, [number]) : writeNumbers(view, [number]),
    );
  }

  /** A constant list of zeros. */
  zeros(type: ElementType, count: number): string {
    const list = new Array<number>(count).fill(0);
    return this.#constant(type, [count], list, (view) => writeNumbers(view, list));
  }

  #constant(type: ElementType, dims: readonly number[], list: readonly number[], write: (view: View) => void): string {
    const key = `constant ${type} [${dims.join()}] ${list.join()}`;
    const before = this.#made.get(key);
    if (before !== undefined) return before;
    const view = View.allocate(type, dims);
    write(view);
    const name = this.fresh(dims.length === 0 ? `${type}_${String(list[0])}` : type === "int64" ? "integers" : "zeros");
    this.#initializers.set(name, initializer(name, Tensor.fromView(view)));
    this.#made.set(key, name);
    return name;
  }

  /** Declares an input anew, or takes it out. */
  changeInput(name: string, value: ModelValue | undefined): void {
    this.#inputs.set(name, value);
  }

  /** Declares an output anew. */
  changeOutput(name: string, value: ModelValue): void {
    this.#outputs.set(name, value);
  }

  /** Adds an input behind the others. */
  addInput(value: ModelValue): void {
    this.#names.add(value.name);
    this.#added.push(value);
  }

  #redirect(node: ModelNode): ModelNode {
    if (!node.inputs.some((name) => this.#redirected.has(name))) return node;
    return { ...node, inputs: node.inputs.map((name) => this.#redirected.get(name) ?? name) };
  }

  /** The model with all changes, without the nodes and constants that nothing needs any more. */
  finish(): Model {
    const { graph } = this.#model;
    const nodes = this.#front.slice();
    for (const node of graph.nodes) {
      const changed = node.outputs.filter((name) => this.#replaced.has(name));
      if (changed.length === 0) nodes.push(this.#redirect(node));
      else for (const name of changed) nodes.push(...this.#replaced.get(name)!);
    }
    const outputs = graph.outputs.map((value) => this.#outputs.get(value.name) ?? value);
    const live = liveNodes(nodes, outputs);
    const read = new Set(live.flatMap((node) => [...readsOf(node)]));
    for (const { name } of outputs) read.add(name);
    const readBefore = new Set(graph.nodes.flatMap((node) => [...readsOf(node)]));
    const inputs = graph.inputs.flatMap((value) => {
      const changed = this.#inputs.has(value.name) ? this.#inputs.get(value.name) : value;
      // What was read before and is read no more goes.
      const unread = readBefore.has(value.name) && !read.has(value.name);
      return changed === undefined || unread ? [] : [changed];
    });
    const kept = graph.initializers.filter(({ name }) => read.has(name) || !readBefore.has(name));
    const isOurs = live.some(({ domain }) => domain === insitu);
    return {
      ...this.#model,
      ...(isOurs ? { opsets: new Map([...this.#model.opsets, [insitu, 1]]) } : {}),
      graph: {
        ...graph,
        nodes: inOrder(live),
        inputs: [...inputs, ...this.#added],
        outputs,
        initializers: [...kept, ...[...this.#initializers.values()].filter(({ name }) => read.has(name))],
      },
    };
  }
}

const plain = (_: string, value: unknown): unknown =>
  typeof value === "bigint"
    ? String(value)
    : ArrayBuffer.isView(value)
      ? Array.from(value as Float32Array, String)
      : value;

/** Every name that a node reads, those its bodies take from outside included. */
export function* readsOf(node: ModelNode): Generator<string> {
  yield* node.inputs.filter((name) => name !== "");
  for (const attribute of node.attributes.values()) for (const body of bodiesOf(attribute)) yield* captured(body);
}

function bodiesOf(attribute: ModelAttribute): readonly ModelGraph[] {
  return attribute.kind === "graph" ? [attribute.value] : attribute.kind === "graphs" ? attribute.value : [];
}

function* captured(body: ModelGraph): Generator<string> {
  const own = new Set([...body.inputs, ...body.initializers].map(({ name }) => name));
  for (const node of body.nodes) for (const name of node.outputs) own.add(name);
  for (const node of body.nodes) for (const name of readsOf(node)) if (!own.has(name)) yield name;
  for (const { name } of body.outputs) if (!own.has(name)) yield name;
}

function* namesIn(graph: ModelGraph): Generator<string> {
  for (const { name } of [...graph.inputs, ...graph.outputs, ...graph.initializers]) yield name;
  for (const { values } of graph.sparseInitializers) yield values.name;
  for (const node of graph.nodes) {
    yield node.name;
    yield* node.outputs;
    for (const attribute of node.attributes.values()) for (const body of bodiesOf(attribute)) yield* namesIn(body);
  }
}

/** The nodes that outputs depend on, in the order given. */
function liveNodes(nodes: readonly ModelNode[], outputs: readonly ModelValue[]): ModelNode[] {
  const makers = new Map<string, ModelNode>();
  for (const node of nodes) for (const name of node.outputs) if (name !== "") makers.set(name, node);
  const live = new Set<ModelNode>();
  const pending = outputs.map(({ name }) => name);
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    const maker = makers.get(name);
    if (maker === undefined || live.has(maker)) continue;
    live.add(maker);
    pending.push(...readsOf(maker));
  }
  return nodes.filter((node) => live.has(node));
}

/** The nodes with each behind those that make its operands; otherwise in the order given. */
function inOrder(nodes: readonly ModelNode[]): ModelNode[] {
  const makers = new Map<string, ModelNode>();
  for (const node of nodes) for (const name of node.outputs) if (name !== "") makers.set(name, node);
  const done = new Set<ModelNode>();
  for (const start of nodes) {
    const pending = [start];
    const waiting = new Set(pending);
    while (pending.length > 0) {
      const node = pending.at(-1)!;
      const missing = done.has(node)
        ? undefined
        : [...readsOf(node)].map((name) => makers.get(name)).find((maker) => maker !== undefined && !done.has(maker));
      if (missing === undefined) {
        done.add(node);
        pending.pop();
      } else if (waiting.has(missing))
        throw new InsituError("internal", `the rewritten graph is cyclic at "${node.outputs[0]}"`);
      else {
        waiting.add(missing);
        pending.push(missing);
      }
    }
  }
  return [...done];
}
