/**
 * Where each output's bytes lie: who shares with whom, how long each buffer is needed, and its offset in the arena.
 * Works on an order that the plan has already made safe.
 */
import { isKnownShape } from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import type { Node, Value } from "../graph/graph.js";
import { byteLengthOf, type ElementType } from "../tensor/element-type.js";
import { elementCount } from "../tensor/view.js";
import { type Lifetime, packApart, type PackedApart, packArena } from "./arena.js";
import { liesAlike, overwritesNothingOfItsOwn, permutedBy } from "./permuted-views.js";
import type { Plan } from "./plan.js";
import { bytesReadBy, effectOf } from "./uses.js";

interface Placed {
  readonly type: ElementType;
  readonly shape: readonly number[];
}

/** Where an output's bytes lie. */
export type Placement =
  /** In the program's arena; where that is several buffers, in one of them. */
  | (Placed & { readonly kind: "arena"; readonly offset: number; readonly buffer: number })
  /** In the bytes of another value: shown unchanged, taken over, or partly written. */
  | (Placed & { readonly kind: "shared"; readonly with: Value; readonly effect: "view" | "reuse" | "update" })
  /** In a buffer of its own for each run: results, and strings. */
  | (Placed & { readonly kind: "own" })
  /** Found out when the step runs. */
  | { readonly kind: "dynamic" };

/** How buffers are laid out. */
export interface LayoutOptions {
  /** Results lie in the arena until the run ends, to be copied out; otherwise each has a buffer of its own. */
  readonly resultsInArena?: boolean;
  /** True where a step cannot read and write one buffer: every output gets another buffer than its step's operands, but for updates. */
  readonly apart?: boolean;
}

/** What was asked of one output while placing it: whether the bytes of an operand that it may take over are what it needs. */
interface Question {
  readonly value: Value;
  readonly source: Value;
  readonly fits: boolean;
  /** Where the output is the operand in another order of its axes. */
  readonly order?: readonly number[];
}

/** Where outputs lie, and what the arena takes: in one buffer, or in several. */
export interface Layout {
  readonly placements: ReadonlyMap<Value, Placement>;
  readonly arenaBytes: number;
  readonly arenaBuffers: readonly number[];
  /** The bytes that each value in the arena may take where it lies. */
  readonly rooms: ReadonlyMap<Value, number>;
  /** All that shapes decided, but for sizes. */
  readonly questions: readonly Question[];
}

/** Places the outputs of the nodes, which run in this order. `roomFor` tells the bytes to set aside for a value that needs so many. */
export function layOut(
  plan: Plan,
  nodes: readonly Node[],
  facts: ReadonlyMap<Value, Fact>,
  { resultsInArena = false, apart = false }: LayoutOptions = {},
  roomFor: (value: Value, bytes: number) => number = (_, bytes) => bytes,
): Layout {
  const buffers = new Buffers(plan, nodes);
  const placements = new Map<Value, Placement>();
  const questions: Question[] = [];
  const mayTake = (source: Value, value: Value, placed: Placed, position: number): boolean => {
    if (apart || !buffers.isFree(source, position)) return false;
    const question = { value, source, fits: fits(facts.get(source), placed) };
    questions.push(question);
    return question.fits;
  };
  const mayShow = overwritesNothingOfItsOwn(plan, nodes);
  /** The operand under which an output may be shown that only has its axes in another order. */
  const shownBy = (node: Node, value: Value, at: number, shape: readonly number[]): Value | undefined => {
    const permuted = mayShow ? permutedBy(node, at, shape.length) : undefined;
    if (permuted === undefined || !buffers.isBetween(permuted.source) || buffers.isResult(value)) return undefined;
    const { source, order } = permuted;
    const question = { value, source, order, fits: liesAsIn(facts.get(source), order) };
    questions.push(question);
    return question.fits ? source : undefined;
  };
  nodes.forEach((node, position) => {
    node.outputs.forEach((value, at) => {
      if (value === undefined) return;
      const fact = facts.get(value);
      if (fact === undefined || !isKnownShape(fact.shape)) return placements.set(value, { kind: "dynamic" });
      const placed: Placed = { type: fact.type, shape: fact.shape };
      const shared = sharedWith(plan, node, value, at, (source) => mayTake(source, value, placed, position));
      if (shared !== undefined) {
        buffers.share(value, shared.with);
        return placements.set(value, { kind: "shared", ...shared, ...placed });
      }
      const shown = shownBy(node, value, at, fact.shape);
      if (shown !== undefined) {
        buffers.share(value, shown);
        return placements.set(value, { kind: "shared", with: shown, effect: "view", ...placed });
      }
      if (fact.type !== "string") buffers.open(value, position);
      return placements.set(value, { kind: "own", ...placed });
    });
  });
  // A buffer that a result lies in outlives the run, unless results are copied out; all others go to the arena.
  const owners = buffers.owners.filter(({ last }) => resultsInArena || last !== Infinity);
  const lifetimes = owners.map(({ value, first, last }) => {
    const bytes = roomFor(value, bytesOf(placements.get(value) as Placed));
    return { bytes, first, last: Math.max(first, last) };
  });
  const { numbers, offsets, sizes } = apart ? packApart(lifetimes) : packTogether(lifetimes);
  const rooms = new Map<Value, number>();
  owners.forEach(({ value }, at) => {
    const { type, shape } = placements.get(value) as Placed;
    placements.set(value, { kind: "arena", buffer: numbers[at], offset: offsets[at], type, shape });
    rooms.set(value, apart ? sizes[numbers[at]] : lifetimes[at].bytes);
  });
  const arenaBytes = sizes.reduce((sum, size) => sum + size, 0);
  return { placements, arenaBytes, arenaBuffers: sizes, rooms, questions };
}

/**
 * The same layout for other shapes of the `changed` values, where it serves them: everything shares as it did, and what grew has room.
 * Undefined where another layout is needed, and where most of this one's room would be left over. What is known of the values, constants
 * and whether shapes are numbers, is as it was.
 */
export function layOutAgain(
  before: Layout,
  facts: ReadonlyMap<Value, Fact>,
  changed: ReadonlySet<Value>,
): Layout | undefined {
  const placements = new Map(before.placements);
  let [needed, set] = [0, 0];
  for (const value of changed) {
    const placement = before.placements.get(value);
    if (placement === undefined || placement.kind === "dynamic") continue;
    const { type, shape } = facts.get(value)!;
    if (!isKnownShape(shape)) return undefined;
    placements.set(value, { ...placement, type, shape });
    const room = before.rooms.get(value);
    if (room === undefined) continue;
    const bytes = bytesOf({ type, shape });
    if (bytes > room) return undefined;
    needed += bytes;
    set += room;
  }
  if (needed * mostSpare < set) return undefined;
  for (const { value, source, order, fits: answer } of before.questions) {
    if (!changed.has(value) && !changed.has(source)) continue;
    const fact = facts.get(source);
    const now = order === undefined ? fits(fact, placements.get(value) as Placed) : liesAsIn(fact, order);
    if (now !== answer) return undefined;
  }
  return { ...before, placements };
}

/** A layout with more than this many times the room that is needed is made anew: values that are read together should lie together. */
const mostSpare = 4;

const bytesOf = ({ type, shape }: Placed): number => byteLengthOf(type, elementCount(shape));

/** Everything in one buffer. */
function packTogether(lifetimes: readonly Lifetime[]): PackedApart {
  const { offsets, bytes } = packArena(lifetimes);
  return { numbers: lifetimes.map(() => 0), offsets, sizes: [bytes] };
}

/** Whose bytes an output takes by its effect, if any. */
function sharedWith(
  plan: Plan,
  node: Node,
  value: Value,
  at: number,
  isFree: (source: Value) => boolean,
): { readonly with: Value; readonly effect: "view" | "reuse" | "update" } | undefined {
  const past = plan.inPlace.get(value);
  if (past !== undefined) return { with: past, effect: "update" };
  const effect = effectOf(node, at);
  if (effect?.kind === "view") return { with: effect.sources[0], effect: "view" };
  if (effect?.kind === "reuse") {
    const free = effect.sources.find(isFree);
    if (free !== undefined) return { with: free, effect: "reuse" };
  }
  return undefined;
}

/** True if a value's bytes are exactly what the other one needs. */
function fits(fact: Fact | undefined, { type, shape }: Placed): boolean {
  return (
    fact !== undefined &&
    fact.constant === undefined &&
    fact.type === type &&
    isKnownShape(fact.shape) &&
    elementCount(fact.shape) === elementCount(shape)
  );
}

/** True if a value in this order of its axes lies as it does. */
const liesAsIn = (fact: Fact | undefined, order: readonly number[]): boolean =>
  isKnownShape(fact?.shape) && liesAlike(fact.shape, order);

/** The buffers that steps open, and how long each is read through everything that shares it. */
class Buffers {
  readonly #owner = new Map<Value, Value>();
  readonly #opened = new Map<Value, number>();
  readonly #lastRead = new Map<Value, number>();

  constructor(plan: Plan, nodes: readonly Node[]) {
    nodes.forEach((node, position) => {
      for (const value of bytesReadBy(node)) this.#lastRead.set(value, position);
    });
    for (const value of plan.graph.outputs) this.#lastRead.set(value, Infinity);
  }

  #read(value: Value): number {
    return this.#lastRead.get(value) ?? -1;
  }

  /** Gives a value a buffer of its own from this step on. */
  open(value: Value, position: number): void {
    this.#opened.set(value, position);
    this.#owner.set(value, value);
  }

  /** Puts a value into another one's buffer, which is then read as long as either. */
  share(value: Value, source: Value): void {
    const owner = this.#owner.get(source);
    if (owner === undefined) return; // a feed's, a state's or a constant's: not ours to reuse
    this.#owner.set(value, owner);
    this.#lastRead.set(owner, Math.max(this.#read(owner), this.#read(value)));
  }

  /** True if no step after this one reads the buffer under a value. */
  isFree(source: Value, position: number): boolean {
    const owner = this.#owner.get(source);
    return owner !== undefined && this.#read(owner) <= position && this.#read(source) <= position;
  }

  /** True for what a step made in a buffer of the program's that ends before the run does. */
  isBetween(value: Value): boolean {
    const owner = this.#owner.get(value);
    return owner !== undefined && !this.isResult(owner) && !this.isResult(value);
  }

  /** True for what is read when the run ends. */
  isResult(value: Value): boolean {
    return this.#read(value) === Infinity;
  }

  /** Every opened buffer with its lifetime. */
  get owners(): { readonly value: Value; readonly first: number; readonly last: number }[] {
    return [...this.#opened].map(([value, first]) => ({ value, first, last: this.#read(value) }));
  }
}
