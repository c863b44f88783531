// The operators around linear attention on WebGPU against the reference implementation: gates with and without rates, norms over groups of a row, sums
// with a gate for each row, of all floats, and values for which exponentials overflow.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ElementType } from "../../../src/tensor/element-type.js";
import type { View } from "../../../src/tensor/view.js";
import { numberReader, numberWriter } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { differenceOf, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const domain = "com.microsoft";
const tolerances = { float32: 2e-5, float16: 2 ** -8, bfloat16: 2 ** -5 } as const;

describe.skipIf(noWebgpu !== undefined)("gated layers on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  describe.each(Object.entries(tolerances))("%s", (name, tolerance) => {
    const type = name as ElementType;
    const random = randomFrom(tolerance * 1e6);
    const make = (shape: readonly number[], of = type): View => randomNumbers(random, of, shape);
    /** The first numbers far from 0. */
    const extreme = (view: View): View => {
      const [read, write] = [numberReader(view), numberWriter(view)];
      for (let at = 0; at < Math.min(4, view.size); at++) write(at, read(at) + [100, -100, 40, -40][at]);
      return view;
    };
    const same = async (call: Omit<OneNode, "domain" | "opset">, kernels: readonly string[]): Promise<void> =>
      expect(await differenceOf({ domain, opset: 1, ...call }, kernels, tolerance)).toBe("");

    test("LinearAttentionGate", async () => {
      for (const [shape, heads, rates] of [
        [[1, 1, 4], 4, true],
        [[2, 5, 3], 3, true],
        [[7, 6], 6, false],
      ] as const) {
        const inputs = [extreme(make(shape)), make([heads], "float32"), make([heads], "float32")];
        const b = rates ? [extreme(make(shape))] : [];
        const kernels = ["attentionDecay", ...(rates ? ["attentionRate"] : [])];
        await same({ op: "LinearAttentionGate", inputs: [...inputs, ...b], outputs: [true, rates] }, kernels);
      }
    });

    test("GatedRMSNorm", async () => {
      for (const [shape, size] of [
        [[1, 1, 64], 16],
        [[2, 3, 70], 70],
        [[5, 12], 4],
      ] as const)
        await same({ op: "GatedRMSNorm", inputs: [make(shape), make([size]), extreme(make(shape))], outputs: [true] }, [
          "meanSquares",
          "gateRows",
        ]);
    });

    test("GatedAdd", async () => {
      for (const shape of [
        [1, 1, 33],
        [2, 3, 6],
      ])
        await same(
          { op: "GatedAdd", inputs: [make(shape), make(shape), make([...shape.slice(0, -1), 1])], outputs: [true] },
          ["addGated"],
        );
    });
  });
});
