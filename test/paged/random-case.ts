// Random calls of the paged write, one scenario at a time, every choice from one seed.
import { seededRandom } from "../../src/graph/call.js";
import type { ScatterPaKvCacheInputs, ScatterPaKvCacheOptions } from "../../packages/functions/paged.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { indices, tensorOf } from "./bits.js";
import { isFloat, type SlowCall, type SlowSide, types, widths } from "./oracle.js";

/** The scenarios, each with the modes that name it. */
export const scenarios = {
  PA_NZ: { mode: "PA_NZ", cacheMode: "PA_NZ", scatterMode: "None" },
  "Norm, None": { mode: "None", cacheMode: "Norm", scatterMode: "None" },
  "Norm, Nct": { mode: "Nct", cacheMode: "Norm", scatterMode: "Nct" },
  "4-D, mean": { mode: "mean", cacheMode: "Norm", scatterMode: "None" },
  "4-D, keep last": { mode: "last", cacheMode: "Norm", scatterMode: "None" },
  Alibi: { mode: "Alibi", cacheMode: "Norm", scatterMode: "Alibi" },
  Rope: { mode: "Rope", cacheMode: "Norm", scatterMode: "Rope" },
  Omni: { mode: "Omni", cacheMode: "Norm", scatterMode: "Omni" },
  "key only, None": { mode: "None", cacheMode: "Norm", scatterMode: "None" },
  "key only, Nct": { mode: "Nct", cacheMode: "Norm", scatterMode: "Nct" },
  NHSD: { mode: "NHSD", cacheMode: "Norm", scatterMode: "NHSD" },
} as const satisfies Record<string, Pick<SlowCall, "mode"> & ScatterPaKvCacheOptions>;

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios;

/** A call for the operator, and the same for the oracle. */
export interface RandomCase {
  readonly inputs: ScatterPaKvCacheInputs;
  readonly options: ScatterPaKvCacheOptions;
  readonly slow: SlowCall;
  readonly sides: readonly SlowSide[];
}

interface Chance {
  below(count: number): number;
  from(low: number, high: number): number;
  chance(probability: number): boolean;
}

/** The call of this number: types and index types take turns, all else is up to the seed. */
export function randomCase(name: ScenarioName, number: number, seed: number): RandomCase {
  const random = seededRandom(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const dice: Chance = {
    below,
    from: (low, high) => low + below(high - low + 1),
    chance: (probability) => random() < probability,
  };
  const type = types[number % types.length];
  const index = Math.floor(number / types.length) % 2 === 0 ? "int32" : "int64";
  const { mode, ...modes } = scenarios[name];
  const runs = ["mean", "last", "Alibi", "Rope", "Omni"].includes(mode);
  return (runs ? randomRuns : randomTokens)(dice, { mode, modes, type, index, keyOnly: name.startsWith("key only") });
}

interface Chosen {
  readonly mode: SlowCall["mode"];
  readonly modes: ScatterPaKvCacheOptions;
  readonly type: ElementType;
  readonly index: "int32" | "int64";
  readonly keyOnly: boolean;
}

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Bit patterns: any at all, or of floats that are near each other, so that means come out in between. */
function randomBits(dice: Chance, type: ElementType, count: number): number[] {
  const width = 8 * widths[type]!;
  const any = dice.chance(0.5) || !isFloat(type);
  const top = { float16: 0x3c00, bfloat16: 0x3f80, float32: 0x3f800000, float8e4m3fn: 0x38, float8e5m2: 0x3c }[
    type as "float16"
  ];
  return Array.from({ length: count }, () =>
    any ? dice.below(2 ** width) : top + dice.below(top / 8) + (dice.chance(0.3) ? 2 ** (width - 1) : 0),
  );
}

function makeSide(
  dice: Chance,
  type: ElementType,
  rowShape: readonly number[],
  cacheShape: readonly number[],
): SlowSide {
  return {
    type,
    rowShape,
    cacheShape,
    rows: randomBits(dice, type, product(rowShape)),
    cache: randomBits(dice, type, product(cacheShape)),
    stride: 1,
    offset: 0,
  };
}

/** Sizes of heads: small ones, and now and then one that is long enough for bulk copies. */
const headSize = (dice: Chance): number => (dice.chance(0.1) ? dice.from(100, 600) : dice.from(1, 6));

function finish(
  { modes, index, keyOnly }: Chosen,
  slow: SlowCall,
  sides: readonly SlowSide[],
  shapes: { slots: readonly number[]; compressLens?: readonly number[]; compressSeqOffset?: readonly number[] },
  more: ScatterPaKvCacheOptions,
): RandomCase {
  const [key, value] = sides;
  const tensor = (values: readonly number[] | undefined, shape?: readonly number[]): Tensor | undefined =>
    values && indices(index, shape ?? [values.length], values);
  return {
    slow,
    sides,
    options: { ...modes, ...more },
    inputs: {
      key: tensorOf(key.type, key.rowShape, key.rows),
      keyCache: tensorOf(key.type, key.cacheShape, key.cache),
      slotMapping: tensor(slow.slots, shapes.slots)!,
      value: keyOnly ? undefined : tensorOf(value.type, value.rowShape, value.rows),
      valueCache: keyOnly ? undefined : tensorOf(value.type, value.cacheShape, value.cache),
      compressLens: tensor(slow.compressLens, shapes.compressLens),
      compressSeqOffset: tensor(slow.compressSeqOffset, shapes.compressSeqOffset),
      seqLens: tensor(slow.seqLens),
    },
  };
}

function randomTokens(dice: Chance, chosen: Chosen): RandomCase {
  const { mode, type, keyOnly } = chosen;
  const [H, NB, BS] = [dice.from(1, 3), dice.from(1, 4), dice.from(1, 4)];
  const T = dice.from(0, NB * BS);
  const sides = ["key", ...(keyOnly ? [] : ["value"])].map((name): SlowSide => {
    // Only PA_NZ takes values of another type than the keys'.
    const own = name === "value" && mode === "PA_NZ" && dice.chance(0.5) ? types[dice.below(types.length)] : type;
    const c = 32 / widths[own]!;
    const D = mode === "PA_NZ" ? c * dice.from(1, 3) : headSize(dice);
    if (mode === "PA_NZ") {
      const shape = dice.chance(0.2) ? [NB, H, D / c, BS, c] : [NB, (H * D) / c, BS, c];
      return makeSide(dice, own, [T, H, D], shape);
    }
    if (mode === "NHSD") return makeSide(dice, own, [T, H, D], [NB, H, BS, D]);
    if (mode === "None") return makeSide(dice, own, [T, H, D], [NB, BS, H, D]);
    const stride = dice.chance(0.2) ? dice.from(1, H * D) : H * D + dice.below(5);
    const offset = dice.below(4);
    const size = (T === 0 ? 0 : offset + (T - 1) * stride + H * D) + dice.below(3);
    const rowShape = size % 2 === 0 && dice.chance(0.5) ? [size / 2, 2] : [size];
    return { ...makeSide(dice, own, rowShape, [NB, BS, H, D]), stride, offset };
  });
  const free = Array.from({ length: NB * BS }, (_, slot) => slot);
  const slots = Array.from({ length: T }, () => free.splice(dice.below(free.length), 1)[0]);
  if (dice.chance(0.3)) slots.sort((a, b) => a - b); // so that neighbours go to neighbours
  for (let t = 0; t < T; t++) if (dice.chance(0.15)) slots[t] = dice.chance(0.5) ? -1 : -dice.from(1, 1000);
  const check = dice.chance(0.5);
  if (!check && T > 1 && dice.chance(0.3)) slots[dice.below(T)] = slots[dice.below(T)];
  const [key, value] = sides;
  const strides = [key.stride, value?.stride ?? dice.from(1, 9)];
  const offsets = [key.offset, value?.offset ?? dice.below(9)];
  return finish(
    chosen,
    { mode, slots },
    sides,
    { slots: [T] },
    { check, ...(mode === "Nct" ? { strides, offsets } : {}) },
  );
}

function randomRuns(dice: Chance, chosen: Chosen): RandomCase {
  const { mode, type } = chosen;
  const padded = mode === "mean" || mode === "last";
  const [B, H, BS] = [dice.from(1, 3), dice.from(1, 3), dice.from(1, 5)];
  const seqLens = Array.from({ length: B }, () => dice.from(1, 6));
  const keepsLast = mode === "last" || mode === "Alibi";
  const compressLens: number[] = [];
  const compressSeqOffset: number[] = [];
  const stored: number[] = [];
  for (const L of seqLens) {
    for (let h = 0; h < H; h++) {
      const skips = !keepsLast && dice.chance(0.15);
      const w = skips && dice.chance(0.5) ? dice.from(0, 9) : dice.from(0, L);
      const a = skips ? -dice.from(1, 3) : dice.from(0, L - w);
      compressLens.push(w);
      compressSeqOffset.push(a);
      stored.push(keepsLast ? w : a < 0 || w === 0 ? L : mode === "Omni" ? L - w : L - w + 1);
    }
  }
  const order = stored.map((_, run) => run);
  for (let i = order.length - 1; i > 0; i--) {
    const j = dice.below(i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  const slots = new Array<number>(stored.length).fill(-1);
  let next = dice.below(3);
  for (const run of order) {
    if (dice.chance(0.1)) {
      slots[run] = -dice.from(1, 5);
      continue;
    }
    slots[run] = next;
    next += stored[run] + (dice.chance(0.3) ? dice.below(3) : 0);
  }
  const check = dice.chance(0.5);
  const [first, second] = [dice.below(slots.length), dice.below(slots.length)];
  if (!check && slots[first] >= 0 && dice.chance(0.3) && slots[first] + stored[second] <= next)
    slots[second] = slots[first];
  const NS = Math.max(
    next,
    stored.reduce((a, b) => a + b, 0),
    1,
  );
  const NB = Math.ceil(NS / BS) + dice.below(2);
  const S = Math.max(...seqLens) + dice.below(2);
  const sides = [headSize(dice), headSize(dice)].map((D) => {
    const rowShape = padded ? [B, S, H, D] : [seqLens.reduce((a, b) => a + b, 0), H, D];
    return makeSide(dice, type, rowShape, [NB, BS, 1, D]);
  });
  const slow: SlowCall = {
    mode,
    slots,
    compressLens,
    ...(keepsLast ? {} : { compressSeqOffset }),
    seqLens,
  };
  const either = (): number[] => (dice.chance(0.5) ? [B, H] : [B * H]);
  const shapes = { slots: padded ? [B, H] : [B * H], compressLens: either(), compressSeqOffset: [B * H] };
  return finish(chosen, slow, sides, shapes, { check });
}
