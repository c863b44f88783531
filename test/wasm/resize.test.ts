// The fast path of Resize and Upsample against the reference implementation: every mode, up and down, along any axes.
import { test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import { type AttributeInput, float, floats } from "../../src/onnx/build.js";
import { type Feed, randomFrom, randomView } from "./fast-path.js";
import { checking, pick, rounds, useVariants } from "./light-checks.js";

const check = checking(useVariants());
const near = { relative: 1e-5, absolute: 2e-5 };

test("random calls", async () => {
  const random = randomFrom(401);
  for (let round = 0; round < rounds; round++) {
    const rank = pick(random, [1, 2, 3, 4, 4]);
    const shape = Array.from({ length: rank }, () => pick(random, [1, 2, 3, 7, 16]));
    const mode = pick(random, ["nearest", "linear", "cubic"]);
    const attrs: Record<string, AttributeInput> = {
      mode,
      coordinate_transformation_mode: pick(random, ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
      ...(mode === "nearest" ? { nearest_mode: pick(random, ["floor", "ceil", "round_prefer_ceil"]) } : {}),
      ...(mode === "cubic" ? { cubic_coeff_a: float(-0.5), exclude_outside: pick(random, [0, 1]) } : {}),
      ...(mode === "nearest" ? {} : { antialias: pick(random, [0, 1]) }),
    };
    const factors = shape.map(() => pick(random, [1, 1, 0.5, 1.5, 2, 3]));
    const scales: Feed = {
      view: of(
        "float32",
        [rank],
        factors.map((factor, axis) => Math.max(factor, 1 / shape[axis])),
      ),
      as: "constant",
    };
    const X: Feed = { view: randomView(random, "float32", shape) };
    await check({ op: "Resize", opset: 19, attrs, inputs: [X, undefined, scales], ...near });
  }
});

test("sizes, earlier versions, and what the kernel leaves to the reference implementation", async () => {
  const random = randomFrom(402);
  const X: Feed = { view: randomView(random, "float32", [2, 3, 8, 9]) };
  const sizes: Feed = { view: of("int64", [4], [2n, 3n, 5n, 20n]), as: "constant" };
  const scales: Feed = { view: of("float32", [4], [1, 1, 2, 3]), as: "constant" };
  const linear = { mode: "linear" };
  await check({ op: "Resize", opset: 13, attrs: linear, inputs: [X, undefined, undefined, sizes], ...near });
  await check({ op: "Resize", opset: 10, attrs: linear, inputs: [X, scales], ...near });
  await check({ op: "Upsample", opset: 9, attrs: linear, inputs: [X, scales], ...near });
  await check({ op: "Upsample", opset: 7, attrs: { scales: floats([1, 1, 2, 2]) }, inputs: [X] });
  const whole: Feed = { view: of("int32", [2], [1, 2]) };
  await check({ op: "Resize", opset: 10, inputs: [whole, { view: of("float32", [1], [2]), as: "constant" }] }, false);
  const region: Feed = { view: of("float32", [8], [0, 0, 0, 0, 1, 1, 1, 1]), as: "constant" };
  const crop = { ...linear, coordinate_transformation_mode: "tf_crop_and_resize" };
  await check({ op: "Resize", opset: 13, attrs: crop, inputs: [X, region, scales], ...near }, false);
});
