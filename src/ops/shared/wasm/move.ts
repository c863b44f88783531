/** Moves of elements as strided copies: what the fast paths of Transpose, Slice, Concat and their kin share. */
import type { Operand } from "../../../graph/kernel.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import { type ByteStorage, traitsOf } from "../../../tensor/element-type.js";
import type { View } from "../../../tensor/view.js";
import { joinDimensions, productOf } from "../rules/layout.js";
import { partsFor } from "./work.js";

/** Part of an operand: the view lies in the operand's bytes. */
interface Piece {
  readonly operand: Operand;
  readonly view: View;
}

/** A copy between pieces of one shape; what is there already is not copied. */
export interface Move {
  readonly from: Piece;
  readonly to: Piece;
}

/** A whole operand. */
export const whole = (operand: Operand): Piece => ({ operand, view: operand.view });

/** The most dimensions of a copy beside the bytes that lie together. */
const mostDimensions = 5;
const mostJobs = 64;

/** Sizes and strides of a copy in bytes, or why there is none. */
interface Plan {
  readonly width: number;
  readonly sizes: readonly number[];
  readonly from: readonly number[];
  readonly to: readonly number[];
}

function planOf({ from, to }: Move): Plan | string {
  const { type } = from.view;
  if (type === "string") return "strings live outside the memory";
  const { bits } = traitsOf(type);
  const { shape, strides } = joinDimensions(from.view.shape, [from.view.strides, to.view.strides]);
  const last = shape.length - 1;
  const together = last >= 0 && strides.every((own) => own[last] === 1);
  const width = (together ? shape[last] : 1) * bits;
  const sizes = together ? shape.slice(0, -1) : shape;
  const [sources, targets] = strides.map((own) => own.slice(0, sizes.length).map((stride) => stride * bits));
  const starts = [from, to].map(({ operand, view }) => (view.offset - operand.view.offset) * bits);
  if (from.view.size > 0 && [width, ...sources, ...targets, ...starts].some((place) => place % 8 !== 0))
    return "elements do not lie on whole bytes";
  if (productOf(sizes.slice(0, -mostDimensions)) > mostJobs) return "the copy has too many dimensions";
  const bytes = (places: readonly number[]): readonly number[] => places.map((place) => place / 8);
  return { width: width / 8, sizes, from: bytes(sources), to: bytes(targets) };
}

/** True if both sides are the same bytes in the same order. */
function isThere({ from, to }: Move): boolean {
  if (from.operand.known || startOf(from.view) !== startOf(to.view)) return false;
  const { strides } = joinDimensions(from.view.shape, [from.view.strides, to.view.strides]);
  return strides[0].every((stride, axis) => stride === strides[1][axis]);
}

/** Where a view begins in the memory, in bits. Whatever is not known beforehand lies there. */
const startOf = ({ data, offset, type }: View): number =>
  (data as ByteStorage).byteOffset * 8 + offset * traitsOf(type).bits;

/** The first and the last bit of what lies between a view's elements. */
function spanOf(view: View): { readonly low: number; readonly high: number } {
  const { bits } = traitsOf(view.type);
  const edge = (pick: (x: number, y: number) => number): number =>
    view.strides.reduce((place, step, axis) => place + pick(0, step * (view.shape[axis] - 1)) * bits, startOf(view));
  return { low: edge(Math.min), high: edge(Math.max) };
}

/** Which of many targets a stretch of memory has something in common with. */
class Targets {
  readonly #spans: readonly { readonly move: Move; readonly low: number; readonly high: number }[];
  /** Of all spans up to each: the one that ends last, and where the last of the others ends. */
  readonly #reach: { readonly move: Move; readonly high: number; readonly others: number }[] = [];

  constructor(moves: readonly Move[]) {
    this.#spans = moves
      .filter(({ to }) => to.view.size > 0)
      .map((move) => ({ move, ...spanOf(move.to.view) }))
      .sort((a, b) => a.low - b.low);
    for (const { move, high } of this.#spans) {
      const before = this.#reach.at(-1) ?? { move, high: -Infinity, others: -Infinity };
      this.#reach.push(
        high > before.high ? { move, high, others: before.high } : { ...before, others: Math.max(before.others, high) },
      );
    }
  }

  /** True if what a move reads lies where a move writes; its own target does not count where nothing is left to do. */
  overlap(move: Move): boolean {
    if (move.from.operand.known || move.from.view.size === 0) return false;
    const { low, high } = spanOf(move.from.view);
    let [first, end] = [0, this.#spans.length]; // the first span that begins behind what is read
    while (first < end) {
      const middle = (first + end) >>> 1;
      if (this.#spans[middle].low <= high) first = middle + 1;
      else end = middle;
    }
    const reach = this.#reach.at(first === 0 ? this.#reach.length : first - 1);
    if (reach === undefined || reach.high < low) return false;
    return reach.move !== move || !isThere(move) || reach.others >= low;
  }
}

/** True if kernels can do the moves, in any order, else why not. */
export function movable(moves: readonly Move[]): true | string {
  const targets = new Targets(moves);
  for (const move of moves) {
    const plan = planOf(move);
    if (typeof plan === "string") return plan;
    if (targets.overlap(move)) return "an operand overlaps the output";
  }
  return true;
}

/** Queues moves that `movable` holds of. */
export function recordMoves(recorder: Recorder, moves: readonly Move[]): void {
  for (const move of moves) {
    const plan = planOf(move);
    if (typeof plan === "string" || move.from.view.size === 0 || isThere(move)) continue;
    recordCopy(recorder, placeOf(recorder, move.from), placeOf(recorder, move.to), plan);
  }
}

const placeOf = (recorder: Recorder, { operand, view }: Piece): number =>
  recorder.address(operand) + ((view.offset - operand.view.offset) * traitsOf(view.type).bits) / 8;

/** Bytes that one thread copies in one go, where there is nothing but bytes that lie together. */
const longRun = 1 << 18;

function recordCopy(recorder: Recorder, source: number, target: number, { width, sizes, from, to }: Plan): void {
  if (sizes.length > mostDimensions) {
    const rest = { width, sizes: sizes.slice(1), from: from.slice(1), to: to.slice(1) };
    for (let at = 0; at < sizes[0]; at++) recordCopy(recorder, source + at * from[0], target + at * to[0], rest);
    return;
  }
  if (sizes.length === 0 && width >= 2 * longRun) {
    const runs = Math.floor(width / longRun);
    const done = runs * longRun;
    recordCopy(recorder, source, target, { width: longRun, sizes: [runs], from: [longRun], to: [longRun] });
    if (done < width) recordCopy(recorder, source + done, target + done, { width: width - done, sizes, from, to });
    return;
  }
  // Threads share the outer four dimensions: a single one of long rows goes there.
  const outer = sizes.length === 1 && width >= 256 ? 1 : 0;
  const lead = mostDimensions - sizes.length - outer;
  const at = (list: readonly number[], dimension: number, absent: number): number => list[dimension - lead] ?? absent;
  const rows = productOf(sizes);
  recorder.run(
    "copyStrided",
    {
      source,
      target,
      width,
      size0: at(sizes, 0, 1),
      size1: at(sizes, 1, 1),
      size2: at(sizes, 2, 1),
      size3: at(sizes, 3, 1),
      size4: at(sizes, 4, 1),
      source0: at(from, 0, 0),
      source1: at(from, 1, 0),
      source2: at(from, 2, 0),
      source3: at(from, 3, 0),
      source4: at(from, 4, 0),
      target0: at(to, 0, 0),
      target1: at(to, 1, 0),
      target2: at(to, 2, 0),
      target3: at(to, 3, 0),
      target4: at(to, 4, 0),
    },
    partsFor(recorder, rows * (width <= 8 ? 1.5 : 15) + rows * width * 0.08),
  );
}
