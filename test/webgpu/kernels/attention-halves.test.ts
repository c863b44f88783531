// Attention of many queries in float16 against the reference implementation, on any device: where none has float16, float32 stands for it.
import { describe, expect, test } from "vitest";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { PlacedSession } from "../../support/gpu.js";
import { gpuWithHalves } from "../../support/imagined-halves.js";
import { type AttentionForm, differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const tolerance = 6e-3;
const options = { webgpu: { subgroupMatrices: false } };
const place = PlacedSession.place(gpuWithHalves());

/** A call whose caches hold NaN from each sample's length on, and elsewhere random numbers that `changed` changes. */
function call(
  { size, valueSize = size, heads, shared, queries, capacity, attrs = { is_causal: 1 } }: AttentionForm,
  lengths: readonly number[],
  changed: (input: number, number: number, row: number, column: number) => number = (_, number) => number,
): OneNode {
  const random = randomFrom(size + queries);
  const batch = lengths.length;
  const make = (input: number, count: number, rows: number, width: number): View => {
    const view = randomNumbers(random, "float16", [batch, count, rows, width]);
    const write = numberWriter(view);
    for (let at = 0; at < view.size; at++) {
      const row = Math.floor(at / width) % rows;
      const isSpare = input > 0 && row >= lengths[Math.floor(at / (count * rows * width))];
      write(at, isSpare ? NaN : changed(input, 2 * random() - 1, row, at % width));
    }
    return view;
  };
  return {
    op: "Attention",
    opset: 25,
    attrs,
    inputs: [
      make(0, heads, queries, size),
      make(1, shared, capacity, size),
      make(2, shared, capacity, valueSize),
      undefined,
      undefined,
      undefined,
      integers("int64", lengths),
    ],
  };
}

/** The same call with a sink for each of so many heads. */
const withSinks = (given: OneNode, heads: number): OneNode => ({
  ...given,
  op: "SinkAttention",
  domain: "insitu",
  opset: 1,
  inputs: [...given.inputs, randomNumbers(randomFrom(heads), "float16", [heads])],
});

const problemOf = (given: OneNode, most = tolerance, on = place): Promise<string> =>
  differenceOf(given, ["attentionInHalves"], most, options, on);

describe.skipIf(noWebgpu !== undefined)("Attention in float16 on WebGPU", () => {
  test.each<AttentionForm>([
    { size: 128, heads: 4, shared: 2, queries: 70, capacity: 208 },
    { size: 64, heads: 2, shared: 2, queries: 33, capacity: 230 },
    { size: 32, valueSize: 16, heads: 6, shared: 2, queries: 9, capacity: 201, attrs: {} },
    { size: 80, valueSize: 112, heads: 3, shared: 1, queries: 40, capacity: 200 },
    { size: 256, heads: 2, shared: 1, queries: 20, capacity: 200 },
    {
      size: 48,
      heads: 2,
      shared: 2,
      queries: 65,
      capacity: 200,
      attrs: { is_causal: 1, left_window_size: 50, scale: float(-0.4) },
    },
  ])("heads of $size, $heads to $shared", async (form) => {
    for (const lengths of [[64, 65, 1], [127], [200, 0, 128]]) expect(await problemOf(call(form, lengths))).toBe("");
  });

  const small: AttentionForm = { size: 32, heads: 2, shared: 1, queries: 40, capacity: 100 };

  test("where workgroups have little memory", async () => {
    const least = { maxComputeWorkgroupStorageSize: 16_384 };
    const on = PlacedSession.place(gpuWithHalves(least));
    expect(await problemOf(call({ ...small, size: 128 }, [90, 100]), tolerance, on)).toBe("");
  });

  test("sums in between that float16 cannot hold, of scores that are ordinary", async () => {
    // The first half of a product is as large as the second, with the other sign.
    const form = { ...small, size: 64, valueSize: 32, attrs: { is_causal: 1, scale: float(2 ** -8) } };
    const given = call(form, [100], (input, number, _, column) => {
      if (input === 0) return 1500;
      return input === 1 ? (column < 32 ? 1500 : -1500) + number : number;
    });
    // The reference implementation rounds scores to float16.
    expect(await problemOf(given, 0.05)).toBe("");
  });

  test("queries that a small scale would make subnormal", async () => {
    const attrs = { is_causal: 1, scale: float(2 ** -13) };
    const given = call({ ...small, size: 64, attrs }, [100], (input, number, row) => {
      if (input === 0) return 0.4;
      return input === 1 ? 600 * Math.sin(row) : number;
    });
    expect(await problemOf(given)).toBe("");
  });

  test("keys that weigh little beside one, and much together, where subnormal numbers are zero", async () => {
    const given = call({ ...small, size: 64, capacity: 1024 }, [1024], (input, _, row) => {
      if (input === 1) return row === 0 ? 1.25 : 0;
      return input === 0 ? 1 : 0.5;
    });
    for (const node of [given, withSinks(given, 2)]) expect(await problemOf(node, 1e-3)).toBe("");
  });

  test("large values, and numbers that are none", async () => {
    const large = call(small, [100], (input, row, number) =>
      input === 2 ? number * (row === 70 ? 60_000 : row < 30 ? 40 : 600) : number,
    );
    expect(await problemOf(large, 64)).toBe("");
    // A key that is no number spoils the rows that see it, and no others.
    const broken = call(small, [100], (input, number, row) => (input === 1 && row === 80 ? Infinity : number));
    expect(await problemOf(broken)).toBe("");
  });
});
