// CausalConvWithState on WebGPU against the reference implementation: inputs shorter and longer than the kernel, states held, given and absent.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { differenceOf, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

describe.skipIf(noWebgpu !== undefined)("CausalConvWithState on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each([
    ["none", "float32"],
    ["silu", "float32"],
    ["none", "float16"],
    ["silu", "bfloat16"],
  ] as const)("%s of %s", async (activation, type) => {
    const random = randomFrom(activation.length);
    const make = (shape: readonly number[]): View => randomNumbers(random, type, shape);
    const tolerance = { float32: 1e-5, float16: 2 ** -9, bfloat16: 2 ** -6 }[type];
    for (const [batch, channels, length, kernel] of [
      [1, 70, 1, 4],
      [2, 3, 2, 4],
      [2, 5, 9, 3],
      [1, 1, 1, 2],
      [1, 3, 2, 1],
    ])
      for (const form of ["held", "given", "absent"]) {
        const call: OneNode = {
          op: "CausalConvWithState",
          opset: 27,
          attrs: { activation },
          inputs: [
            make([batch, channels, length]),
            make([channels, 1, kernel]),
            random() < 0.5 ? make([channels]) : undefined,
            form === "absent" ? undefined : make([batch, channels, kernel - 1]),
          ],
          outputs: [true, true],
          ...(form === "held" ? { held: { 3: 1 } } : {}),
        };
        expect(
          await differenceOf(call, ["causalConvolution", ...(kernel === 1 ? [] : ["carryValues"])], tolerance),
        ).toBe("");
      }
  });
});
