import { of, type OpCase } from "./shared/case.js";
import type { View } from "#insitu/tensor/view.js";

const { NaN: none } = Number;

/** Tokens 1 and 4. */
const seenBefore = 0b10010;

const sample = (
  shows: string,
  logits: View,
  [temperature, topK, minP, topP = 1, penalty = 1]: readonly [
    number | readonly number[],
    number,
    number,
    topP?: number,
    penalty?: number,
  ],
  chance: { readonly seed: readonly number[]; readonly counter: readonly number[] },
  answer: Pick<OpCase, "outputs" | "throws">,
): OpCase => ({
  op: "SampleToken",
  domain: "insitu",
  opset: 1,
  shows,
  inputs: [
    logits,
    of(
      "float32",
      [[temperature].flat().length, 4],
      [temperature].flat().flatMap((each) => [each, topP, minP, penalty]),
    ),
    of("int64", [], [topK]),
    of("int64", [chance.seed.length], chance.seed),
    of("int64", [chance.counter.length], chance.counter),
    of("int32", [1, 1], [seenBefore]),
  ],
  ...answer,
});

const tokens = (...values: readonly number[]): Pick<OpCase, "outputs"> => ({
  outputs: [
    of("int64", [values.length, 1], values),
    of(
      "int64",
      [values.length, 1],
      values.map((token) => Math.max(0, token)),
    ),
    of(
      "int32",
      [values.length, 1],
      values.map((token) => (token < 0 ? seenBefore : seenBefore | (1 << token))),
    ),
  ],
});
const five = [1, 3, 2, 3, -1];
const row = of("float32", [1, 1, 5], five);
const chance = { seed: [7], counter: [0] };

export const cases: readonly OpCase[] = [
  sample("temperature 0 takes the first of the likeliest", row, [0, 0, 0], chance, tokens(1)),
  sample(
    "the last row of each text",
    of("float16", [2, 2, 3], [9, 0, 0, 0, 1, 2, 0, 9, 0, 5, 1, 2]),
    [0, 0, 0],
    { seed: [1, 2], counter: [0] },
    tokens(2, 0),
  ),
  sample("the likeliest alone may be taken: of two the first", row, [1, 1, 0], chance, tokens(1)),
  sample("a nucleus of one: of two that are as likely the first", row, [1, 0, 0, 0.3], chance, tokens(1)),
  sample("what was seen is less likely: of two the second", row, [0, 0, 0, 1, 1.1], chance, tokens(3)),
  sample(
    "a negative logit gets more so",
    of("float32", [1, 1, 3], [-2, -1, -1.5]),
    [0, 0, 0, 1, 1.6],
    chance,
    tokens(2),
  ),
  sample("NaN is never taken", of("float32", [1, 1, 4], [none, -1, none, -2]), [1, 1, 0], chance, tokens(1)),
  sample(
    "nothing but NaN and infinities: no token",
    of("float32", [2, 1, 2], [none, -Infinity, Infinity, 1]),
    [0, 0, 0],
    { seed: [1, 2], counter: [0, 0] },
    tokens(-1, -1),
  ),
  // Computed by another program from the generator's definition.
  sample(
    "a draw is a function of seed and counter",
    of("float32", [6, 1, 5], [...five, ...five, ...five, ...five, ...five, ...five]),
    [1, 0, 0],
    { seed: [7, 7, 7, 7, -8, 2 ** 40 + 1], counter: [0, 1, 2, 3, 0, 5] },
    tokens(3, 1, 1, 0, 1, 1),
  ),
  // The likeliest two have 0.79 of the probability: draws that fell on them before do so again.
  sample(
    "a nucleus of two",
    of("float32", [5, 1, 5], [...five, ...five, ...five, ...five, ...five]),
    [1, 4, 0, 0.7],
    { seed: [7, 7, 7, -8, 2 ** 40 + 1], counter: [0, 1, 2, 0, 5] },
    tokens(3, 1, 1, 1, 1),
  ),
  sample(
    "each text has options of its own",
    of("float32", [3, 1, 5], [...five, ...five, ...five]),
    [[0, 1, 1], 0, 0],
    { seed: [7], counter: [0, 0, 3] },
    tokens(1, 3, 0),
  ),
  sample(
    "two seeds for one text are refused",
    row,
    [1, 0, 0],
    { seed: [1, 2], counter: [0] },
    { throws: /seed must have one number, or one for each text of logits \[1,1,5\], got \[2\]/ },
  ),
  sample("logits without rows are refused", of("float32", [1, 5], [1, 2, 3, 4, 5]), [0, 0, 0], chance, {
    throws: /logits must have 3 dimensions, got \[1,5\]/,
  }),
];
