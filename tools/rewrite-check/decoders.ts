/** A decoder before and after it was rewritten, each fed as its own generation code would: what `rewrite --check` compares. */
import { bindShape, type Dim, isKnown, sameDim, symbolsOf } from "#insitu/graph/dim.js";
import type { Value } from "#insitu/graph/graph.js";
import type { Analysis } from "#insitu/rewrite/analysis.js";
import { names } from "#insitu/rewrite/decoder-names.js";
import { cacheAxis } from "#insitu/rewrite/roles.js";
import type { Session } from "#insitu/session/session.js";
import type { State } from "#insitu/session/state.js";
import { writeIntegers, writeNumbers } from "#insitu/tensor/access.js";
import { cloneView } from "#insitu/tensor/copy.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { elementCount, View } from "#insitu/tensor/view.js";

/** Tokens of each sample; all samples have as many. */
export type Tokens = readonly (readonly number[])[];

/** Results of a run by name, caches left out. */
export type Results = ReadonlyMap<string, View>;

function integers(type: ElementType, dims: readonly number[], list: readonly number[]): Tensor {
  const view = View.allocate(type, dims);
  if (traitsOf(type).kind === "integer") writeIntegers(view, list);
  else writeNumbers(view, list);
  return Tensor.fromView(view);
}

/** Rows of what is never read, and of what an encoder would bring. */
const unreadSize = 3;

/** What both forms of a decoder have in common: inputs that carry tokens. */
class Fed {
  readonly session: Session;
  readonly analysis: Analysis;
  readonly results: readonly string[];
  /** Inputs that have a value of their own. */
  readonly #weights: ReadonlySet<string>;

  constructor(session: Session, analysis: Analysis) {
    this.session = session;
    this.analysis = analysis;
    const read = analysis.whole.nodes.flatMap((node) => node.inputs);
    this.#weights = new Set(read.flatMap((value) => (value?.initializer === undefined ? [] : [value.name])));
    const caches = new Set(analysis.trails.map(({ present }) => present.name));
    this.results = session.outputNames.filter((name) => !caches.has(name));
  }

  /** Feeds for inputs that hold something for each token: its number, its position, or made-up values where the model takes embeddings. */
  tokenFeeds(tokens: Tokens, positions: Tokens): Record<string, Tensor> {
    const feeds: Record<string, Tensor> = {};
    for (const { name, type, shape } of this.session.inputMetadata) {
      const value = this.analysis.graph.inputs.find((input) => input.name === name);
      const perToken = value?.fact?.shape?.some((dim) => sameDim(dim, this.analysis.tokens)) ?? false;
      const isMask = value?.fact?.shape?.some((dim) => symbolsOf(dim).has("past")) ?? false;
      if (!(perToken || name === names.positions) || this.isSpecial(value) || isMask) continue;
      const dims = [tokens.length, tokens[0].length];
      // One row for all samples is the first one's.
      const rows = shape[0] === 1 ? positions.slice(0, 1) : positions;
      if (/position/i.test(name)) feeds[name] = integers(type, dims.with(0, rows.length), rows.flat());
      else if (shape.length === 2) feeds[name] = integers(type, dims, tokens.flat());
      else feeds[name] = embeddings(type, [...dims, ...shape.slice(2).map(Number)], tokens.flat());
    }
    return feeds;
  }

  /** Feeds for what is declared and never read: anything of a fitting shape, the same in every run but for sizes that others have. */
  unreadFeeds(
    fed: Readonly<Record<string, Tensor>>,
    held: ReadonlySet<string>,
    [batch, count]: readonly [number, number],
  ): Record<string, Tensor> {
    const { inputMetadata } = this.session;
    const sizes = new Map<string, number>();
    for (const { name, shape } of inputMetadata)
      shape.forEach((dim, axis) => {
        if (typeof dim === "string" && fed[name] !== undefined) sizes.set(dim, fed[name].dims[axis]);
      });
    const feeds: Record<string, Tensor> = {};
    for (const { name, type, shape } of inputMetadata) {
      if (fed[name] !== undefined || held.has(name) || this.#weights.has(name)) continue;
      const isForeign = this.analysis.foreign.has(name);
      const dims = shape.map((dim, axis) =>
        typeof dim === "number"
          ? dim
          : (sizes.get(dim) ??
            (axis === 0 && shape.length > 1 ? batch : isForeign || shape.length > 2 ? unreadSize : count)),
      );
      // Of what is another's, all rows are valid.
      feeds[name] = isForeign
        ? integers(type, dims, Array<number>(elementCount(dims)).fill(1))
        : Tensor.fromView(View.allocate(type, dims));
    }
    return feeds;
  }

  /** Feeds for masks that callers build: a row for each token, a column for each row of the caches, what is ahead hidden. */
  builtMasks(starts: readonly number[], count: number, columns: number): Record<string, Tensor> {
    const feeds: Record<string, Tensor> = {};
    for (const value of this.analysis.graph.inputs) {
      const { shape, type } = value.fact!;
      if (this.isSpecial(value) || shape?.length !== 4 || !symbolsOf(shape[3]).has("past")) continue;
      const [seen, hidden] = type === "bool" ? [1, 0] : [0, -1e9];
      const numbers = starts.flatMap((start) =>
        Array.from({ length: count * columns }, (_, at) =>
          at % columns <= start + Math.floor(at / columns) ? seen : hidden,
        ),
      );
      feeds[value.name] = integers(type, [starts.length, 1, count, columns], numbers);
    }
    return feeds;
  }

  /** True for caches, masks and numbers of rows. */
  isSpecial(value: Value | undefined): boolean {
    const { trails, masks, counters } = this.analysis;
    return (
      value !== undefined &&
      (masks.includes(value) || counters.includes(value) || trails.some(({ past }) => past === value))
    );
  }

  pick(results: Readonly<Record<string, Tensor>>): Results {
    return new Map(this.results.map((name) => [name, results[name].toView()]));
  }
}

/** Values that differ from token to token, the same each time. */
function embeddings(type: ElementType, dims: readonly number[], tokens: readonly number[]): Tensor {
  const view = View.allocate(type, dims);
  const width = view.size / tokens.length;
  writeNumbers(
    view,
    Array.from({ length: view.size }, (_, at) =>
      Math.sin(12.9898 * (tokens[Math.floor(at / width)] + 1) + 78.233 * (at % width)),
    ),
  );
  return Tensor.fromView(view);
}

/** The original: caches that grow, fed back after each run. One that writes from row 0 on reads the whole text each time. */
export class GrownDecoder extends Fed {
  #pasts = new Map<string, View>();
  #pads: readonly number[] = [];
  #length = 0;
  #text: Tokens = [];

  /** Rows that its caches hold, where they have a fixed shape. */
  get capacity(): number | undefined {
    const rows = this.analysis.trails.map((trail) => trail.past.fact!.shape![cacheAxis(trail)!]).filter(isKnown);
    return rows.length === 0 ? undefined : Math.min(...rows);
  }

  /** A new batch; `pads` columns of each sample's prompt are padding, in front. */
  start(pads: readonly number[]): void {
    const { trails, samples } = this.analysis;
    this.#pads = pads;
    this.#length = 0;
    this.#text = pads.map(() => []);
    const sizes = new Map<string, Dim>([
      [String(samples), pads.length],
      ["past", 0],
    ]);
    this.#pasts = new Map(
      trails.map(({ past }) => [
        past.name,
        View.allocate(past.fact!.type, bindShape(past.fact!.shape!, sizes) as readonly number[]),
      ]),
    );
  }

  async run(tokens: Tokens): Promise<Results> {
    this.#text = this.#text.map((row, sample) => [...row, ...tokens[sample]]);
    if (this.analysis.past !== 0) return this.#run(tokens);
    const [whole, count] = [this.#text, tokens[0].length];
    this.start(this.#pads);
    this.#text = whole;
    const results = await this.#run(whole);
    const total = whole[0].length;
    const last = (view: View): View =>
      view.rank > 2 && view.shape[1] === total ? view.slice(1, total - count, total) : view;
    return new Map([...results].map(([name, view]) => [name, last(view)]));
  }

  async #run(tokens: Tokens): Promise<Results> {
    const { trails } = this.analysis;
    const count = tokens[0].length;
    const positions = tokens.map((row, sample) =>
      row.map((_, at) => Math.max(0, this.#length + at - this.#pads[sample])),
    );
    const starts = tokens.map(() => this.#length);
    const feeds = {
      ...this.tokenFeeds(tokens, positions),
      ...this.#lengthFeeds(count),
      ...this.builtMasks(starts, count, this.#length + count),
    };
    for (const [name, view] of this.#pasts) feeds[name] = Tensor.fromView(view);
    // What chooses between a graph without caches and one with them is no input of the rewritten model.
    for (const { name, type, shape } of this.session.inputMetadata)
      if (type === "bool" && shape.every((dim) => dim === 1) && feeds[name] === undefined)
        feeds[name] = integers("bool", shape.map(Number), [Math.sign(this.#length)]);
    const results = await this.session.run({ ...feeds, ...this.unreadFeeds(feeds, new Set(), [tokens.length, count]) });
    for (const { past, present } of trails) this.#pasts.set(past.name, results[present.name].toView());
    this.#length += count;
    return this.pick(results);
  }

  /** Forgets all rows from `length` on. */
  rewind(length: number): void {
    for (const trail of this.analysis.trails) {
      const view = this.#pasts.get(trail.past.name)!;
      // A cache of fixed shape keeps its rows: they are overwritten.
      if (isKnown(trail.past.fact!.shape![cacheAxis(trail)!])) continue;
      this.#pasts.set(trail.past.name, cloneView(view.slice(cacheAxis(trail)!, 0, length)));
    }
    this.#length = length;
    this.#text = this.#text.map((row) => row.slice(0, length));
  }

  #lengthFeeds(count: number): Record<string, Tensor> {
    const { masks, counters, graph, attentions } = this.analysis;
    const [batch, total] = [this.#pads.length, this.#length + count];
    const feeds: Record<string, Tensor> = {};
    for (const { name, fact } of masks) {
      const bits = this.#pads.flatMap((pad) => Array.from({ length: total }, (_, column) => (column < pad ? 0 : 1)));
      feeds[name] = integers(fact!.type, [batch, total], bits);
    }
    for (const { name, fact } of counters) {
      const dims = fact!.shape!.length === 0 ? [] : [isKnown(fact!.shape![0]) ? fact!.shape![0] : count];
      feeds[name] = integers(
        fact!.type,
        dims,
        Array.from({ length: dims[0] ?? 1 }, (_, at) => this.#length + at),
      );
    }
    // Lengths that attention operators take as inputs of the model.
    for (const { node } of attentions) {
      const operands = Object.keys(node.op.inputs).map((name, at) => [name, node.inputs[at]] as const);
      for (const [parameter, value] of operands) {
        if (value === undefined || !graph.inputs.includes(value)) continue;
        if (parameter === "seqlens_k")
          feeds[value.name] = integers(
            "int32",
            [batch],
            this.#pads.map(() => total - 1),
          );
        if (parameter === "total_sequence_length")
          feeds[value.name] = integers("int32", value.fact!.shape!.length === 0 ? [] : [1], [total]);
        if (parameter === "past_sequence_length")
          feeds[value.name] = integers("int32", value.fact!.shape!.length === 0 ? [] : [1], [this.#length]);
      }
    }
    return feeds;
  }
}

/** The rewritten form: caches of a fixed capacity, written in place. */
export class FixedDecoder extends Fed {
  #state: State | undefined;
  readonly #capacity: number;

  constructor(session: Session, analysis: Analysis, capacity: number) {
    super(session, analysis);
    this.#capacity = capacity;
  }

  start(batch: number): void {
    this.#state = this.session.createState({ dims: { batch, capacity: this.#capacity } });
  }

  /** Runs tokens of which the first `counts` of each sample are valid. */
  async run(tokens: Tokens, counts: readonly number[]): Promise<Results> {
    const state = this.#state!;
    const before = state.lengths;
    const positions = tokens.map((row, sample) => row.map((_, at) => before[sample] + at));
    const after = before.map((length, sample) => length + counts[sample]);
    const masks = this.builtMasks(before, tokens[0].length, this.#capacity);
    const feeds = { ...this.tokenFeeds(tokens, positions), ...masks };
    const own = this.session.inputMetadata.find(({ name }) => name === names.positions);
    if (own !== undefined) feeds[own.name] = integers(own.type, [tokens.length, tokens[0].length], positions.flat());
    for (const { name, fact } of this.analysis.masks) {
      if (!this.session.inputNames.includes(name)) continue;
      const bits = after.flatMap((length) =>
        Array.from({ length: this.#capacity }, (_, column) => (column < length ? 1 : 0)),
      );
      feeds[name] = integers(fact!.type, [tokens.length, this.#capacity], bits);
    }
    feeds[names.lengths] = integers("int64", [after.length], after);
    const held = new Set([...state.names, names.starts]);
    const unread = this.unreadFeeds(feeds, held, [tokens.length, tokens[0].length]);
    return this.pick(await this.session.run({ ...feeds, ...unread }, { state }));
  }

  rewind(length: number): void {
    this.#state!.rewind(length);
  }
}
