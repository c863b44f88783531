// Integers of 64 bits that no 32 bits hold: every operator that takes some is called, on every backend and in place where it updates, with
// its cases' integers moved by multiples of 2^32, which cutting would undo, and beyond 2^53, where floats stop telling them apart; with
// integers of 32 bits moved near and far, and with integer attributes of more. What comes of it, or the refusal, is that of the functional reference implementation, and what is refused
// writes nothing.
import { afterAll, beforeAll, expect, test } from "vitest";
import { operators } from "../../src/ops/index.js";
import { cloneView } from "../../src/tensor/copy.js";
import { answeredCases, problemsOf, report } from "../support/op-cases.js";
import { openVariant, type Variant } from "../wasm/fast-path.js";
import { soak } from "../support/soak.js";

const low = 2n ** 32n;
/** What becomes of an integer. */
const moves: readonly ((value: bigint) => bigint)[] = [
  (value) => value + low,
  (value) => value - low,
  (value) => value + 3n * low,
  (value) => value - 2n ** 40n,
  (value) => value + 2n ** 53n + 1n,
  (value) => value - 2n ** 62n,
  () => 2n ** 63n - 1n,
  () => -(2n ** 63n),
];

let variants: readonly Variant[];
beforeAll(async () => {
  variants = [await openVariant(1, true), await openVariant(2, false)];
});
afterAll(() => variants.forEach(({ session }) => session.release()));

/** The same within 32 bits: a little out of range, and as far as there is. */
const nearMoves: readonly ((value: bigint) => bigint)[] = [
  (value) => value + 1n,
  (value) => value - 1n,
  (value) => value + 1000n,
  (value) => value - 1000n,
  () => 2n ** 31n - 1n,
  () => -(2n ** 31n),
];

const kinds = [
  ["int64", [...moves, ...nearMoves]],
  ["int32", nearMoves],
] as const;

test.each(kinds)("operands of %s", async (type, ways) => {
  const problems: string[] = [];
  const counts = { refused: 0, ran: 0, inPlace: 0 };
  const seen = new Set<string>();
  for (const [number, example] of answeredCases.entries()) {
    for (const [at, operand] of example.inputs.entries()) {
      if (operand?.type !== type || operand.size === 0) continue;
      seen.add(example.op);
      for (const [kind, move] of ways.entries()) {
        // In the tests one of four: which ones, the case's number decides.
        if (!soak && (kind + number) % 8 !== 0) continue;
        const moved = cloneView(operand);
        const values = moved.data as BigInt64Array | Int32Array;
        const position = (kind * 5 + number) % operand.size;
        const to = move(BigInt(values[position]));
        if (values instanceof Int32Array) values[position] = Number(to);
        else values[position] = to;
        const what = `${example.op}-${example.opset}: ${example.shows}; operand ${at} is ${values.join()}`;
        const inputs = example.inputs.with(at, moved);
        problems.push(...(await problemsOf(variants, { ...example, inputs }, what, counts)));
      }
    }
  }
  report(counts, `${type}, ${seen.size} operators`);
  expect(problems).toEqual([]);
  expect(counts.refused).toBeGreaterThan(type === "int64" ? 500 : 100);
  expect(counts.inPlace).toBeGreaterThan(type === "int64" ? 100 : 10);
});

test("attributes of more than 32 bits", async () => {
  const problems: string[] = [];
  const counts = { refused: 0, ran: 0, inPlace: 0 };
  for (const [number, example] of answeredCases.entries()) {
    const { op, domain = "", opset } = example;
    for (const [name, { kind }] of Object.entries(operators.find(domain, op, opset)!.attrs)) {
      if (kind !== "int") continue;
      const given = example.attrs?.[name];
      if (given !== undefined && typeof given !== "number") continue;
      for (const [at, by] of [2 ** 32, -(2 ** 32), 2 ** 31, 2 ** 53 - 2 ** 33].entries()) {
        if (!soak && (at + number) % 8 !== 0) continue;
        const attrs = { ...example.attrs, [name]: (given ?? 0) + by };
        const what = `${op}-${opset}: ${example.shows}; ${name} is ${(given ?? 0) + by}`;
        problems.push(...(await problemsOf(variants, { ...example, attrs }, what, counts)));
      }
    }
  }
  report(counts, "attributes");
  expect(problems).toEqual([]);
  expect(counts.refused).toBeGreaterThan(200);
  expect(counts.ran).toBeGreaterThan(50);
});
