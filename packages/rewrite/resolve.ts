/**
 * What is left of a model once its attentions read caches of fixed capacity must not depend on how many rows the caches held: that number is
 * no shape any more. Values that do are replaced by what they mean, positions of tokens and sizes; what means something else is named.
 */
import { type Dim, isKnown, sameDim, type Shape, subtractDims, symbol, symbolsOf } from "#insitu/graph/dim.js";
import { integersOf } from "#insitu/graph/fact.js";
import { type Graph, type Node, readsOf, type Value } from "#insitu/graph/graph.js";
import { traitsOf } from "#insitu/tensor/element-type.js";
import type { Analysis } from "./analysis.js";
import type { Element } from "./element.js";
import { Elements } from "./elements.js";
import type { ModelEdit } from "./model-edit.js";
import { Ranges } from "./ranges.js";
import { atPosition, byPosition, regenerate, type Wanted } from "./regenerate.js";
import { positiveSizes } from "./role-words.js";

/** Tensors of the rewritten model that values are made from. */
interface Sources {
  /** Positions of the new tokens, [batch, sequence]. */
  positions(): string;
  /** A size as a list of one number; undefined for sizes that are not known. */
  size(name: string): string | undefined;
}

/** A value that depends on the old length, and where that comes from. */
export interface Blame {
  readonly value: Value;
  readonly node: Node | undefined;
}

/** A value whose answer is looked for: the operands that must all be free of the old length, those before `next` being so. */
interface Question {
  readonly value: Value;
  operands: boolean | readonly Value[];
  next: number;
  /** Who was to blame before. */
  readonly before: Blame | undefined;
}

/** Finds out what depends on the old length, and replaces it. */
export class Resolver {
  readonly #analysis: Analysis;
  readonly #edit: ModelEdit;
  readonly #sources: Sources;
  readonly #producers = new Map<Value, Node>();
  readonly #known = new Map<Value, boolean>();
  readonly #gone: ReadonlySet<Value>;
  readonly #pasts: ReadonlySet<Value>;
  readonly #caches: ReadonlySet<string>;
  readonly #mayChangeRank: boolean;
  /** Names of values that were replaced by positions. */
  readonly positions: string[] = [];
  /** The first value that could not be replaced. */
  blame: Blame | undefined;

  constructor(analysis: Analysis, edit: ModelEdit, sources: Sources, gone: Iterable<Value>, mayChangeRank: boolean) {
    this.#analysis = analysis;
    this.#edit = edit;
    this.#sources = sources;
    this.#gone = new Set(gone);
    this.#pasts = new Set(analysis.trails.map(({ past }) => past));
    this.#caches = new Set(analysis.trails.flatMap(({ present, written }) => [present.name, written.name]));
    this.#mayChangeRank = mayChangeRank;
    for (const node of analysis.whole.nodes)
      for (const value of node.outputs) if (value !== undefined) this.#producers.set(value, node);
  }

  /** True if a value does not depend on the old length, or has been replaced by one that does not. */
  resolve(value: Value): boolean {
    // A list of its own in place of recursion: graphs may be deeper than any stack.
    const pending = [this.#question(value)];
    for (let last = pending.at(-1); last !== undefined; last = pending.at(-1)) {
      if (!this.#known.has(last.value)) {
        if (typeof last.operands !== "boolean" && last.next < last.operands.length) {
          const operand = last.operands[last.next];
          const known = this.#known.get(operand);
          if (known === undefined) pending.push(this.#question(operand));
          else if (known) last.next++;
          else last.operands = false;
          continue;
        }
        const answer = last.operands !== false || this.#substitute(last.value);
        // What failed further back does not matter where the value itself was replaced.
        if (answer) this.blame = last.before;
        else this.blame ??= { value: last.value, node: this.#producers.get(last.value) };
        this.#known.set(last.value, answer);
      }
      pending.pop();
    }
    return this.#known.get(value)!;
  }

  #question(value: Value): Question {
    return { value, operands: this.#known.has(value) || this.#isClean(value), next: 0, before: this.blame };
  }

  /** True or false where that shows from the value itself; else the operands that it depends on. */
  #isClean(value: Value): boolean | readonly Value[] {
    if (this.#caches.has(value.name)) return false;
    if (this.#edit.isReplaced(value.name)) return true;
    const node = this.#producers.get(value);
    if (node === undefined)
      return value.initializer !== undefined || !(this.#gone.has(value) || this.#pasts.has(value));
    if (this.#countsRows(node)) return false;
    if (node.op.readsOnlyShape.length > 0 && node.inputs.length === 1) {
      const [of] = node.inputs;
      if (of !== undefined && this.#pasts.has(of)) return isFree(integersOf(value.fact));
    }
    return readsOf(node);
  }

  /** True for numbers of new tokens that stand for rows, where no length is counted apart. */
  #countsRows(node: Node): boolean {
    return this.#analysis.past === 0 && node.op.name === "Range" && this.#positionAxis(node.outputs[0]!) !== undefined;
  }

  /** Replaces a value by a constant, by sizes, or by positions. */
  #substitute(value: Value): boolean {
    const node = this.#producers.get(value);
    if (this.#caches.has(value.name) || this.#pasts.has(value)) return false;
    if (node === undefined ? !this.#gone.has(value) : node.outputs.length !== 1) return false;
    const listed = integersOf(value.fact);
    const rank = value.fact?.shape?.length ?? 0;
    if (node !== undefined && listed !== undefined && rank <= 1 && isFree(listed) && this.#emitIntegers(value, listed))
      return true;
    if (node !== undefined && this.#lookUp(value, node)) return true;
    const found = this.#positionAxis(value);
    if (found === undefined) return node !== undefined && this.#computeAnew(value);
    const shape = value.fact!.shape!;
    const samples = this.#samplesAxis(shape, found.axis);
    if (samples < 0 && !(this.#mayChangeRank && rank === 1)) return false;
    if (shape.some((dim, axis) => axis !== found.axis && axis !== samples && dim !== 1)) return false;
    const others = shape.flatMap((_, axis) => (axis === found.axis || axis === samples ? [] : [axis]));
    this.#emitPositions(value, others, found.shift);
    this.positions.push(value.name);
    return true;
  }

  /** The axis before the tokens' that has room for the samples; −1 for none. */
  #samplesAxis(shape: Shape, tokens: number): number {
    return shape.findIndex((dim, axis) => axis < tokens && (dim === 1 || sameDim(dim, this.#analysis.samples)));
  }

  /** An element of a value, with the index it is asked at. */
  #elementOf(value: Value): { readonly element: Element; readonly index: readonly Dim[] } {
    const ranges = new Ranges(positiveSizes);
    const index = value.fact!.shape!.map((dim, at) => ranges.variable(`%${at}`, dim));
    return { element: new Elements(this.#analysis.graph, ranges, this.#analysis.assumptions).of(value, index), index };
  }

  /** Computes a value of tokens from their positions, where its elements say how. */
  #computeAnew(value: Value): boolean {
    const shape = value.fact?.shape;
    const tokens = shape?.findLastIndex((dim) => sameDim(dim, this.#analysis.tokens)) ?? -1;
    if (shape === undefined || tokens < 0 || shape.some(isLong)) return false;
    const { element, index } = this.#elementOf(value);
    if (element.kind === "read" && element.from === value) return false;
    const own = this.#samplesAxis(shape, tokens);
    if (own < 0 && !this.#mayChangeRank) return false;
    const { past, samples } = this.#analysis;
    // Without room for samples, they come first.
    return this.#emitAnew(value, {
      element: past === 0 ? atPosition(element, index[tokens]) : byPosition(element, index[tokens], past),
      shape: own < 0 ? [samples, ...shape] : shape,
      index: own < 0 ? [symbol("%samples"), ...index] : index,
      samples: Math.max(own, 0),
      tokens: own < 0 ? tokens + 1 : tokens,
      positions: this.#sources.positions(),
    });
  }

  /** Computes what is looked up among all rows at the positions alone. */
  #lookUp(value: Value, node: Node): boolean {
    const [data, indices] = node.inputs;
    const [rows, places] = [data?.fact?.shape, indices?.fact?.shape];
    if (node.op.name !== "Gather" || node.op.domain !== "" || rows === undefined || places?.length !== 2) return false;
    const given = node.attrs["axis"] as number;
    const axis = given < 0 ? given + rows.length : given;
    if (!isLong(rows[axis]) || indices!.fact!.type !== "int64" || !this.resolve(indices!)) return false;
    const { element, index } = this.#elementOf(data!);
    if (element.kind === "read" && element.from === data) return false;
    return this.#emitAnew(value, {
      element: atPosition(element, index[axis]),
      shape: value.fact!.shape!,
      index: [...index.slice(0, axis), symbol("%samples"), symbol("%tokens"), ...index.slice(axis + 1)],
      samples: axis,
      tokens: axis + 1,
      positions: indices!.name,
    });
  }

  #emitAnew(value: Value, wanted: Omit<Wanted, "type" | "size">): boolean {
    const { type } = value.fact!;
    let made = false;
    const edit = this.#edit;
    const nodes = edit.attempt(() => {
      const name = regenerate(edit, { ...wanted, type, size: (of) => this.#sources.size(of) });
      made = typeof name === "string";
      if (typeof name === "string") edit.node("Identity", [name], { output: value.name });
    });
    if (!made) return false;
    edit.replaceBy(value.name, nodes);
    this.positions.push(value.name);
    return true;
  }

  /** The axis along which a value counts the rows of new tokens, and what it adds. */
  #positionAxis(value: Value): { readonly axis: number; readonly shift: number } | undefined {
    const { fact } = value;
    if (fact?.shape === undefined || traitsOf(fact.type).kind !== "integer") return undefined;
    const axis = fact.shape.findLastIndex((dim) => sameDim(dim, this.#analysis.tokens));
    if (axis < 0) return undefined;
    const { element, index } = this.#elementOf(value);
    if (element.kind !== "integer") return undefined;
    const shift = subtractDims(subtractDims(element.value, this.#analysis.past), index[axis]);
    return isKnown(shift) ? { axis, shift } : undefined;
  }

  #emitPositions(value: Value, others: readonly number[], shift: number): void {
    const edit = this.#edit;
    const type = value.fact!.type;
    const isInput = !this.#producers.has(value);
    const output = { output: isInput ? edit.fresh(value.name) : value.name };
    const make = (): void => {
      const steps: ((name: string, last: { readonly output?: string }) => string)[] = [];
      if (others.length > 0) steps.push((name, last) => edit.node("Unsqueeze", [name, edit.integers(others)], last));
      if (shift !== 0) steps.push((name, last) => edit.node("Add", [name, edit.scalar("int64", shift)], last));
      if (type !== "int64")
        steps.push((name, last) => edit.node("Cast", [name], { attributes: { to: traitsOf(type).code }, ...last }));
      if (steps.length === 0) steps.push((name, last) => edit.node("Identity", [name], last));
      steps.reduce((name, step, at) => step(name, at === steps.length - 1 ? output : {}), this.#sources.positions());
    };
    if (!isInput) return edit.replace(value.name, make);
    // An input keeps its name for nobody: what read it reads the positions.
    edit.atFront(make);
    edit.redirect(value.name, output.output);
  }

  #emitIntegers(value: Value, listed: readonly Dim[]): boolean {
    const edit = this.#edit;
    const symbols = listed.flatMap((dim) => (isKnown(dim) ? [] : [dim]));
    // Sums and products of sizes are not made anew: no exporter needs them here.
    if (symbols.some((dim) => this.#sources.size(String(dim)) === undefined)) return false;
    if (value.fact!.type !== "int64") return false;
    edit.replace(value.name, () => {
      const parts = listed.map((dim) => (isKnown(dim) ? edit.integers([dim]) : this.#sources.size(String(dim))!));
      const joined = parts.length === 1 ? parts[0] : edit.node("Concat", parts, { attributes: { axis: 0 } });
      const shape = value.fact!.shape!.length === 0 ? edit.integers([], [0]) : edit.integers([-1]);
      edit.node("Reshape", [joined, shape], { output: value.name });
    });
    return true;
  }
}

/** True for a dimension that has something for each row of a cache. */
const isLong = (dim: Dim): boolean => symbolsOf(dim).has("past");

/** True if the numbers are known and do not depend on the old length. */
const isFree = (listed: readonly Dim[] | undefined): boolean =>
  listed !== undefined &&
  listed.every((dim) => isKnown(dim) || [...symbolsOf(dim)].every((name) => name !== "past" && !name.startsWith("?")));

/** The graph's values by name. */
export function valuesByName(graph: Graph): Map<string, Value> {
  const values = new Map<string, Value>(graph.inputs.map((value) => [value.name, value]));
  for (const node of graph.nodes)
    for (const value of [...node.inputs, ...node.outputs]) if (value !== undefined) values.set(value.name, value);
  return values;
}
