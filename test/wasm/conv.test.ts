// The fast path of Conv and FusedConv against the reference implementation: strides, dilations, padding, groups, one and two spatial axes, activations.
import { test } from "vitest";
import { type AttributeInput, floats } from "../../src/onnx/build.js";
import { type FastCall, type Feed, randomFrom, randomView } from "./fast-path.js";
import { checking, pick, type Random, rounds, useVariants } from "./light-checks.js";

const check = checking(useVariants());

function convolution(random: Random): FastCall {
  const rank = pick(random, [1, 2, 2]);
  const axes = (...choices: readonly number[]): number[] => Array.from({ length: rank }, () => pick(random, choices));
  const group = pick(random, [1, 1, 2, 5]);
  const [channels, maps] = [pick(random, [1, 2, 3]), pick(random, [1, 3, 4, 6, 9])];
  const [kernel, strides, dilations] = [axes(1, 2, 3, 5), axes(1, 1, 2, 3), axes(1, 1, 2)];
  const isPadded = random() < 0.6;
  const pads = isPadded ? [...axes(0, 1, 2, 7), ...axes(0, 1, 3)] : new Array<number>(2 * rank).fill(0);
  const sizes = kernel.map((size, axis) => (size - 1) * dilations[axis] + 1 + pick(random, [0, 1, 4, 13, 20]));
  const automatic = !isPadded && random() < 0.3;
  const fused = random() < 0.4;
  const activation = pick(random, ["Relu", "LeakyRelu", "Clip"]);
  const parameters = { LeakyRelu: [0.25], Clip: [-1.5, 2] }[activation];
  const make = (shape: readonly number[], as: Feed["as"]): Feed => ({ view: randomView(random, "float32", shape), as });
  const attrs: Record<string, AttributeInput> = {
    strides,
    dilations,
    group,
    ...(automatic ? { auto_pad: pick(random, ["SAME_UPPER", "SAME_LOWER"]) } : { pads }),
    ...(fused ? { activation } : {}),
    ...(fused && parameters !== undefined ? { activation_params: floats(parameters) } : {}),
  };
  return {
    op: fused ? "FusedConv" : "Conv",
    ...(fused ? { domain: "com.microsoft" } : {}),
    attrs,
    inputs: [
      make([pick(random, [1, 2]), group * channels, ...sizes], "fed"),
      make([group * maps, channels, ...kernel], pick(random, ["constant", "fed"] as const)),
      random() < 0.6 ? make([group * maps], "constant") : undefined,
    ],
    relative: 1e-5,
    absolute: 2e-4,
  };
}

test("random calls", async () => {
  const random = randomFrom(411);
  for (let round = 0; round < 4 * rounds; round++) await check(convolution(random));
});

test("what is left to the reference implementation", async () => {
  const random = randomFrom(412);
  const make = (...shape: readonly number[]): Feed => ({ view: randomView(random, "float32", shape) });
  const near = { relative: 1e-5, absolute: 1e-5 };
  await check({ op: "Conv", inputs: [make(1, 1, 3, 3, 3), make(1, 1, 2, 2, 2)], ...near }, false);
  const fused = { op: "FusedConv", domain: "com.microsoft", ...near };
  await check({ ...fused, attrs: { activation: "Tanh" }, inputs: [make(1, 1, 5), make(1, 1, 2)] }, false);
  const summed = [make(1, 1, 5), make(1, 1, 2), undefined, make(1, 1, 4)];
  await check({ ...fused, attrs: { activation: "Relu" }, inputs: summed }, false);
});
