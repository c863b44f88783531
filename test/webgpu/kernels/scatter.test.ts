// TensorScatter on WebGPU against the reference implementation: ranks, axes, types of every width, indices far beyond the capacity, in place and not.
import { describe, expect, test } from "vitest";
import { noWebgpu } from "../../support/backends.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const pick = <const T>(random: () => number, of: readonly T[]): T => of[Math.floor(random() * of.length)];

function scatter(random: () => number): OneNode {
  const type = pick(random, ["float32", "float16", "bfloat16", "uint8", "bool", "float64", "int64", "float8e4m3fn"]);
  const rank = pick(random, [2, 3, 4, 5]);
  const axis = 1 + Math.floor(random() * (rank - 1));
  const shape: number[] = Array.from({ length: rank }, () => pick(random, [1, 2, 3, 4, 8]));
  shape[axis] = pick(random, [1, 5, 16, 65]);
  const circular = random() < 0.5;
  const length = Math.floor(random() * (shape[axis] + 1));
  const cache = randomNumbers(random, type, shape);
  const rows = randomNumbers(random, type, shape.with(axis, length));
  const starts = Array.from({ length: shape[0] }, () =>
    circular
      ? pick(random, [0, 3, 2 ** 31 + 5, 2 ** 40 + 17, 2 ** 53 - 1])
      : Math.floor(random() * (shape[axis] - length + 1)),
  );
  return {
    op: "TensorScatter",
    opset: 24,
    attrs: { axis: random() < 0.5 ? axis : axis - rank, mode: circular ? "circular" : "linear" },
    inputs: [cache, rows, random() < 0.8 ? integers("int64", starts) : undefined],
    ...(random() < 0.5 ? { held: { 0: 0 } } : {}),
  };
}

describe.skipIf(noWebgpu !== undefined)("TensorScatter on WebGPU", () => {
  test.each([1, 2, 3, 4, 5, 6, 14])("random calls, seed %i", async (seed) => {
    const random = randomFrom(seed);
    const problems: string[] = [];
    for (let round = 0; round < 25; round++) {
      const call = scatter(random);
      // Whole numbers that are fed and fetched stay on the host.
      const { type, size } = call.inputs[1]!;
      const moves = size > 0 && (call.held !== undefined || type.includes("float"));
      const problem = await differenceOf(call, moves ? ["scatterRows"] : [], 0);
      if (problem !== "")
        problems.push(`${round}: ${call.inputs.join(", ")} ${JSON.stringify(call.attrs)}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });
});
