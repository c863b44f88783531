// MultiHeadAttention on WebGPU against the reference implementation: operands apart and packed, padding of every form, pasts that grow and buffers with
// anything in their spare rows.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { numberWriter } from "../../../src/tensor/access.js";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const [heads, size] = [2, 8];
const width = heads * size;
const random = randomFrom(5);
const make = (shape: readonly number[]): View => randomNumbers(random, "float32", shape);

const call = (inputs: OneNode["inputs"], more: Partial<OneNode> = {}): OneNode => ({
  op: "MultiHeadAttention",
  domain: "com.microsoft",
  opset: 1,
  inputs,
  ...more,
  attrs: { num_heads: heads, ...more.attrs },
});

/** A buffer whose rows from `length` on hold what no sum may see. */
function buffer(batch: number, capacity: number, length: number): View {
  const view = make([batch, heads, capacity, size]);
  const write = numberWriter(view);
  for (let at = 0; at < view.size; at++) if (Math.floor(at / size) % capacity >= length) write(at, NaN);
  return view;
}

describe.skipIf(noWebgpu !== undefined)("MultiHeadAttention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test("packed operands with lengths for padding", async () => {
    const packed = make([2, 11, heads, 3, size]);
    const causal = { attrs: { unidirectional: 1 } };
    const inputs = [packed, undefined, undefined, undefined, integers("int32", [11, 4])];
    expect(await differenceOf(call(inputs, causal), ["attentionPrefill"], 2e-5)).toBe("");
  });

  test("steps after a past that grows, with bias and padding", async () => {
    for (const past of [1, 63, 64, 100]) {
      const rows = [1, 2, 3].map(() => make([2, 1, width]));
      const seen = integers(
        "int32",
        Array.from({ length: 2 * (past + 1) }, (_, at) => (at % 3 === 0 ? 0 : 1)),
        [2, past + 1],
      );
      const added = make([1, heads, 1, past + 1]);
      const pasts = [1, 2].map(() => make([2, heads, past, size]));
      const example = call([...rows, undefined, seen, added, ...pasts], { outputs: [true, true, true] });
      expect(await differenceOf(example, ["attentionAtOnce", "appendRows"], 2e-5)).toBe("");
    }
  });

  test("steps in a buffer", async () => {
    for (const past of [0, 62, 63, 64, 90]) {
      const rows = [1, 2, 3].map(() => make([1, 2, width]));
      const pasts = [1, 2].map(() => buffer(1, 100, past));
      const inputs = [...rows, undefined, undefined, undefined, ...pasts, integers("int32", [past])];
      const example = call(inputs, { attrs: { unidirectional: 1 }, outputs: [true, true, true] });
      expect(await differenceOf(example, ["attentionAtOnce", "appendRows"], 2e-5)).toBe("");
    }
  });
});
