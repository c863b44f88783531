// Conv on WebGPU against the reference implementation: one to three spatial axes, groups, pads of every kind, strides and dilations, halves.
import { describe, test } from "vitest";
import type { AttributeInput } from "../../../src/onnx/build.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { noWebgpu } from "../../support/backends.js";
import { useDevice } from "./beside.js";
import { randomFrom, randomNumbers } from "./one-node.js";

interface Form {
  readonly type: ElementType;
  readonly x: readonly number[];
  readonly w: readonly number[];
  readonly bias: boolean;
  readonly attrs: Readonly<Record<string, AttributeInput>>;
}

const forms: readonly Form[] = [
  { type: "float32", x: [2, 3, 9], w: [4, 3, 3], bias: true, attrs: { pads: [2, 0], dilations: [1] } },
  { type: "float32", x: [1, 4, 7], w: [4, 1, 4], bias: false, attrs: { group: 4, pads: [3, 0] } },
  { type: "float32", x: [1, 2, 6, 5], w: [3, 2, 3, 2], bias: true, attrs: { auto_pad: "SAME_UPPER", strides: [2, 1] } },
  { type: "float32", x: [1, 2, 6, 7], w: [2, 1, 2, 3], bias: true, attrs: { group: 2, dilations: [2, 3] } },
  { type: "float32", x: [1, 1, 4, 5, 3], w: [2, 1, 2, 3, 2], bias: false, attrs: { auto_pad: "SAME_LOWER" } },
  { type: "float16", x: [1, 3, 5, 5], w: [3, 3, 3, 3], bias: true, attrs: { pads: [1, 1, 1, 1] } },
  { type: "bfloat16", x: [1, 2, 7], w: [1, 2, 2], bias: true, attrs: { strides: [2] } },
];

describe.skipIf(noWebgpu !== undefined)("Conv on WebGPU", () => {
  const tryCall = useDevice();

  test.each(forms)("$type $x with $w", async ({ type, x, w, bias, attrs }) => {
    const random = randomFrom(x.length + w[0]);
    const views = [x, w, ...(bias ? [[w[0]]] : [])].map((shape) => ({ view: randomNumbers(random, type, shape) }));
    await tryCall({
      op: "Conv",
      opset: 22,
      attrs,
      inputs: views,
      absolute: { float32: 1e-5, float16: 1e-2, bfloat16: 5e-2 }[type as "float32"],
    });
  });
});
