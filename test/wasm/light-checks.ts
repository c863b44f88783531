// What the tests of the light operators' fast paths share: the variants they run on, and random shapes and layouts.
import { afterAll, beforeAll, expect } from "vitest";
import { type FastCall, type Feed, openVariant, seed, tryCall, type Variant } from "./fast-path.js";
import { soak } from "../support/soak.js";

export const rounds = soak ? 200 : 6;
export const floats = ["float32", "float16", "bfloat16"] as const;

/** One to three threads, and both builds. */
export function useVariants(): readonly Variant[] {
  const variants: Variant[] = [];
  beforeAll(async () => {
    for (const [threads, relaxed] of [
      [1, true],
      [2, false],
      [3, true],
    ] as const)
      variants.push(await openVariant(threads, relaxed));
  });
  afterAll(() => variants.forEach(({ session }) => session.release()));
  return variants;
}

/** A function that runs a call on every variant: it must agree, and take its fast path or not. */
export const checking =
  (variants: readonly Variant[]) =>
  async (call: FastCall, fast = true): Promise<void> => {
    const operands = call.inputs.map((feed) => feed && `${feed.view}${feed.as ? ` ${feed.as}` : ""}`).join(", ");
    for (const variant of variants) {
      const { difference, taken } = await tryCall(variant, call);
      const shown = `${call.op} ${operands} ${JSON.stringify(call.attrs ?? {})}, ${variant.name}, seed ${seed}`;
      expect(difference, shown).toBe("");
      expect(taken > 0, `${shown}: the fast path was ${fast ? "not " : ""}taken`).toBe(fast);
    }
  };

export type Random = () => number;
export const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)];
export const sizes = [1, 1, 2, 3, 4, 5, 7, 8, 16, 33];
/** Up to `most` dimensions; with four they are small, since each that is broadcast on its own multiplies the jobs. */
export const randomShape = (random: Random, most = 4): number[] => {
  const length = Math.floor(random() * (most + 1));
  return Array.from({ length }, () => (random() < 0.03 ? 0 : pick(random, length < 4 ? sizes : [1, 2, 3, 5, 8])));
};
/** The shape with dimensions that are broadcast: some are 1, some leading ones are gone. */
export const narrowed = (random: Random, shape: readonly number[]): number[] =>
  shape.slice(random() < 0.3 ? Math.floor(random() * (shape.length + 1)) : 0).map((dim) => (random() < 0.3 ? 1 : dim));
/** Gaps in every dimension of a large shape would make too many jobs: three dimensions are enough. */
export const randomWay = (random: Random, { length }: readonly number[]): Feed["as"] =>
  pick(random, ["fed", "fed", "constant", length > 3 ? "fed" : "gaps", "computed"] as const);
/** Constants alone would be folded away: one operand is not. */
export const fedOnce = (feeds: readonly Feed[]): readonly Feed[] => {
  if (!feeds.every(({ as, view }) => as === "constant" || view.size === 0)) return feeds;
  const most = feeds.reduce((a, b) => (b.view.size > a.view.size ? b : a));
  return feeds.map((feed) => (feed === most ? { ...feed, as: "fed" } : feed));
};
