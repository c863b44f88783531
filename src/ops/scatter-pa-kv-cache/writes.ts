/**
 * The rules of ScatterPaKvCache on data: reads slots, lengths and windows, checks them all, and says what goes where. Writes
 * nothing, so that whatever fails here leaves the caches as they were.
 */
import { knownView, type Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { readNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { slotsOf } from "../shared/paged/layouts.js";
import type { Scenario, ScatterAttributes, ScatterOperands } from "./scenario.js";

/** The tokens that one head of one sequence leaves in its run of slots: [0, lead), the mean of a window, [tail, length). */
export interface Run {
  /** Index among the runs: sequence * heads + head. */
  readonly index: number;
  readonly slot: number;
  /** The row of the sequence's first token among all rows, and the head. */
  readonly row: number;
  readonly head: number;
  readonly lead: number;
  /** Tokens from `lead` on whose mean is stored; 0 for none. */
  readonly window: number;
  readonly tail: number;
  readonly length: number;
}

/** Vectors that a run stores. */
const storedBy = ({ lead, window, tail, length }: Run): number => lead + (window > 0 ? 1 : 0) + length - tail;

/** What goes where: a slot a token (negative: skipped), or runs. */
export type Writes =
  | { readonly kind: "tokens"; readonly slots: ArrayLike<number> }
  | { readonly kind: "runs"; readonly runs: readonly Run[] };

/** The slots that writes fill; negative ones are skipped. */
export const slotsWritten = (writes: Writes): number[] =>
  writes.kind === "tokens"
    ? Array.from(writes.slots)
    : writes.runs.flatMap((run) => Array.from({ length: storedBy(run) }, (_, at) => run.slot + at));

type Call = CallContext & { readonly attrs: ScatterAttributes; readonly inputs: ScatterOperands<Fact | View> };

/** The integers of an operand as numbers, where they are known. Past 2^53 they are rounded, which no rule here can miss. */
function integersOf(operand: Fact | View | undefined): ArrayLike<number> | undefined {
  const view = operand === undefined || operand instanceof View ? operand : knownView(operand);
  return view && readNumbers(view);
}

const isNumeric = (shape: Fact["shape"]): shape is readonly number[] =>
  shape !== undefined && shape.every((dim) => typeof dim === "number");

/** Reads and checks where everything goes; undefined where operands or shapes are not known yet. */
export function readWrites(call: Call, scenario: Scenario): Writes | undefined {
  const { key, key_cache, slot_mapping } = call.inputs;
  const slots = integersOf(slot_mapping);
  if (slots === undefined || !isNumeric(key_cache.shape)) return undefined;
  const { count } = slotsOf(scenario.kind === "tokens" ? scenario.layout : "Norm", key_cache.shape);
  if (scenario.kind === "tokens") {
    checkTokenSlots(call, slots, count);
    return { kind: "tokens", slots };
  }
  const lengths = integersOf(call.inputs.seq_lens);
  const windows = integersOf(call.inputs.compress_lens);
  const starts = integersOf(call.inputs.compress_seq_offset);
  if (!isNumeric(key.shape) || lengths === undefined || windows === undefined) return undefined;
  if (scenario.rule !== "last" && starts === undefined) return undefined;
  const rows = checkLengths(call, lengths, key.shape, scenario.padded);
  const heads = key.shape.at(-2)!;
  const runs: Run[] = [];
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index];
    if (slot < 0) continue;
    const sequence = Math.floor(index / heads);
    const window = windows[index];
    const length = lengths[sequence];
    const place = { index, slot, row: rows[sequence], head: index % heads, length };
    const run =
      scenario.rule === "last"
        ? lastTokens(call, place, window)
        : aroundWindow(call, place, starts![index], window, scenario.rule);
    runs.push(run);
  }
  checkRunSlots(call, runs, count);
  return { kind: "runs", runs };
}

function checkTokenSlots(call: Call, slots: ArrayLike<number>, count: number): void {
  for (let token = 0; token < slots.length; token++) {
    if (slots[token] < count) continue;
    call.fail(
      `slot_mapping[${token}] must be below num_blocks * block_size = ${count}, got ${slots[token]}`,
      "invalid-argument",
    );
  }
  if (!call.attrs.check) return;
  const writers = new Map<number, number>();
  for (let token = 0; token < slots.length; token++) {
    const slot = slots[token];
    if (slot < 0) continue;
    const before = writers.get(slot);
    if (before !== undefined) refuseDuplicate(call, slot, before, token);
    writers.set(slot, token);
  }
}

const refuseDuplicate = (call: Call, slot: number, first: number, second: number): never =>
  call.fail(
    `check refuses two vectors in one slot, and slot_mapping[${first}] and slot_mapping[${second}] both write slot ${slot}`,
    "invalid-argument",
  );

/** Fails unless the sequences fill the rows. Returns the row at which each one starts. */
function checkLengths(call: Call, lengths: ArrayLike<number>, key: readonly number[], padded: boolean): number[] {
  const rows: number[] = [];
  let sum = 0;
  for (let sequence = 0; sequence < lengths.length; sequence++) {
    const length = lengths[sequence];
    call.check(length >= 1, () => `seq_lens[${sequence}] must be at least 1, got ${length}`, "invalid-argument");
    if (padded)
      call.check(
        length <= key[1],
        () => `seq_lens[${sequence}] must be at most the seq_len of key, ${key[1]}, got ${length}`,
        "invalid-argument",
      );
    rows.push(padded ? sequence * key[1] : sum);
    sum += length;
  }
  if (!padded)
    call.check(
      sum === key[0],
      () => `seq_lens must sum to the tokens of key, got ${sum} and ${key[0]}`,
      "invalid-argument",
    );
  return rows;
}

type Place = Pick<Run, "index" | "slot" | "row" | "head" | "length">;

/** compress_lens is what is kept: the last `window` tokens. */
function lastTokens(call: Call, place: Place, window: number): Run {
  const { index, length } = place;
  call.check(
    window >= 0 && window <= length,
    () => `compress_lens[${index}], the tokens kept, must lie in [0, ${length}], got ${window}`,
    "invalid-argument",
  );
  return { ...place, lead: 0, window: 0, tail: length - window };
}

/** compress_lens is what is averaged or dropped: `window` tokens from `start` on. A negative start or no window keep all. */
function aroundWindow(call: Call, place: Place, start: number, window: number, rule: "mean" | "drop"): Run {
  const { index, length } = place;
  if (start < 0) return { ...place, lead: 0, window: 0, tail: 0 };
  call.check(
    window >= 0 && window <= length,
    () =>
      `compress_lens[${index}], the tokens ${rule === "mean" ? "averaged" : "dropped"}, must lie in [0, ${length}], got ${window}`,
    "invalid-argument",
  );
  call.check(
    start + window <= length,
    () =>
      `compress_seq_offset[${index}] + compress_lens[${index}] must be at most seq_lens, got ${start} + ${window} > ${length}`,
    "invalid-argument",
  );
  if (window === 0) return { ...place, lead: 0, window: 0, tail: 0 };
  if (rule === "drop") return { ...place, lead: start, window: 0, tail: start + window };
  call.check(
    !call.attrs.hifloat8,
    () =>
      `compress_seq_offset[${index}] asks for the mean of ${window} tokens, and ONNX has no HiFloat8 to compute it in: the bytes can be moved, not averaged; average before encoding, or keep the tokens with a negative offset`,
    "invalid-argument",
  );
  return { ...place, lead: start, window, tail: start + window };
}

/** Fails unless every run ends inside the cache, all of them fit, and, where asked, none overlap. */
function checkRunSlots(call: Call, runs: readonly Run[], count: number): void {
  let sum = 0;
  for (const run of runs) {
    const stored = storedBy(run);
    sum += stored;
    call.check(
      stored === 0 || run.slot + stored <= count,
      () =>
        `slot_mapping[${run.index}] + the ${stored} vectors stored must be at most num_blocks * block_size = ${count}, got ${run.slot} + ${stored}`,
      "invalid-argument",
    );
  }
  call.check(
    sum <= count,
    () => `the runs store ${sum} vectors, num_blocks * block_size has room for ${count}`,
    "invalid-argument",
  );
  if (!call.attrs.check) return;
  const sorted = runs.filter((run) => storedBy(run) > 0).toSorted((a, b) => a.slot - b.slot);
  for (let at = 1; at < sorted.length; at++) {
    const [before, after] = [sorted[at - 1], sorted[at]];
    if (after.slot < before.slot + storedBy(before)) refuseDuplicate(call, after.slot, before.index, after.index);
  }
}
