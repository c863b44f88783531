// TensorScatter, alone and in pairs, on WebGPU against the reference implementation: ranks, axes, types of every width, indices far beyond the capacity, in place and not.
import { describe, expect, test } from "vitest";
import { CallRecorder } from "../../../src/backends/webgpu/recorder.js";
import { acceptsWrites, recordWrites } from "../../../src/ops/shared/webgpu/cache-writes.js";
import type { DeviceTraits } from "../../../src/webgpu-kernels/webgpu-kernel.js";
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

/** The same of two caches, in place and not. */
function pairedScatter(random: () => number): OneNode {
  const { inputs, attrs = {} } = scatter(random);
  const [cache, rows, starts] = inputs;
  const others = [cache, rows].map((view) => randomNumbers(random, view!.type, view!.shape));
  return {
    op: "PairedTensorScatter",
    domain: "insitu",
    opset: 1,
    attrs,
    inputs: [cache, others[0], rows, others[1], starts],
    outputs: [true, true],
    ...(random() < 0.7 ? { held: { 0: 0, 1: 1 } } : {}),
  };
}

describe.skipIf(noWebgpu !== undefined)("TensorScatter on WebGPU", () => {
  test.each([
    ...[1, 2, 3, 4].map((seed) => ({ seed, what: "one cache", callOf: scatter })),
    ...[5, 6, 14].map((seed) => ({ seed, what: "two caches", callOf: pairedScatter })),
  ])("random calls, $what, seed $seed", async ({ seed, callOf }) => {
    const random = randomFrom(seed);
    const problems: string[] = [];
    for (let round = 0; round < 25; round++) {
      const call = callOf(random);
      // Whole numbers that are fed and fetched stay on the host.
      const { type, size } = call.inputs[call.op === "TensorScatter" ? 1 : 2]!;
      const moves = size > 0 && (call.held !== undefined || type.includes("float"));
      const problem = await differenceOf(call, moves ? ["scatterRows"] : [], 0);
      if (problem !== "")
        problems.push(`${round}: ${call.inputs.join(", ")} ${JSON.stringify(call.attrs)}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });
});

test("two caches that lie alike are one dispatch, others one each", () => {
  const dispatches = (shapes: readonly (readonly number[])[]): number => {
    const recorder = new CallRecorder({ mostWorkgroups: 65_535 } as DeviceTraits, new Set());
    const writes = shapes.map((shape) => {
      const cache = recorder.between("float16", shape);
      return { past: cache, present: cache, rows: recorder.between("float16", shape.with(2, 2)) };
    });
    const settings = { axis: -2, mode: "linear", indices: recorder.between("int64", [2]) } as const;
    expect(acceptsWrites(writes)).toBe(true);
    recordWrites(writes, settings, recorder);
    return recorder.dispatches.length;
  };
  expect(dispatches([[2, 3, 8, 4]])).toBe(1);
  expect(
    dispatches([
      [2, 3, 8, 4],
      [2, 3, 8, 4],
    ]),
  ).toBe(1);
  expect(
    dispatches([
      [2, 3, 8, 4],
      [2, 3, 8, 6],
    ]),
  ).toBe(2);
});
