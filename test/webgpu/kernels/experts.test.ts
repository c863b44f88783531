// MoE and QMoE on WebGPU against the reference implementation: weights of all bits, in blocks and not, with zero points and biases, every activation and
// form of SwiGLU, routing that is normalized, given and mixed, and scores that are equal or no numbers.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeNumbers } from "../../../src/tensor/access.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { PlacedSession } from "../../support/gpu.js";
import { gpuWithSubgroups } from "../../support/imagined-subgroups.js";
import { soak } from "../../support/soak.js";
import { differenceOf, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const domain = "com.microsoft";
const kernels = ["routeExperts", "multiplyExperts", "activateExperts", "mixExperts"];
/** The same where weights are read in whole words of blocks. */
const ofBlocks = ["routeExperts", "gateExperts", "mixExperts"];

/** A view of numbers that are drawn one by one. */
function drawn(type: ElementType, shape: readonly number[], next: () => number): View {
  const view = View.allocate(type, shape);
  writeNumbers(view, Float64Array.from({ length: view.size }, next));
  return view;
}

/** One call, with every option that they have. */
function callOf(seed: number): {
  readonly call: OneNode;
  readonly tolerance: number;
  readonly byKernels: readonly string[];
} {
  const random = randomFrom(seed);
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)];
  const bits = pick(undefined, 4, 4, 8, 8, 2);
  const type = pick<ElementType>("float32", "float32", "float16", "bfloat16");
  const [experts, tokens] = [pick(2, 3, 8, 17), pick(1, 1, 2, 5, 13)];
  const block = bits === undefined ? 0 : pick(0, 16, 32);
  const sizes = block === 0 ? [8, 24, 64, 96] : [64, 128];
  const [hidden, inner] = [pick(...sizes), pick(...sizes)];
  const activation = pick("swiglu", "swiglu", "swiglu", "silu", "gelu", "relu", "identity");
  const third = random() < 0.3;
  const isFused = activation === "swiglu" && !third;
  const perByte = bits === undefined ? 1 : 8 / bits;
  const [hasBias, hasZeros] = [random() < 0.5, bits !== undefined && random() < 0.5];
  const scaled = (of: ElementType, shape: readonly number[], size: number): View =>
    drawn(of, shape, () => size * (2 * random() - 1));
  const bytes = (shape: readonly number[]): View => drawn("uint8", shape, () => Math.floor(256 * random()));
  const product = (
    rows: number,
    columns: number,
  ): Record<"weights" | "scales" | "bias" | "zeros", View | undefined> => {
    const blocks = block === 0 ? 1 : columns / block;
    const size = 2 / Math.sqrt(columns);
    const zeros = block === 0 ? [experts, Math.ceil(rows / perByte)] : [experts, rows, Math.ceil(blocks / perByte)];
    const scales = block === 0 ? [experts, rows] : [experts, rows, blocks];
    return {
      weights:
        bits === undefined
          ? scaled(type, [experts, rows, columns], size)
          : bytes([experts, rows, Math.ceil(columns / perByte)]),
      scales: bits === undefined ? undefined : scaled(type, scales, size / 2 ** (bits - 1)),
      bias: hasBias ? scaled(type, [experts, rows], 0.5) : undefined,
      zeros: hasZeros ? bytes(zeros) : undefined,
    };
  };
  const [fc1, fc2] = [product(isFused ? 2 * inner : inner, hidden), product(hidden, inner)];
  const fc3 = third ? product(inner, hidden) : undefined;
  const mixer = random() < 0.15;
  const weights =
    bits === undefined
      ? [fc1.weights, fc1.bias, fc2.weights, fc2.bias, fc3?.weights, fc3?.bias]
      : [
          ...[fc1, fc2, fc3].flatMap((each) => [each?.weights, each?.scales, each?.bias]),
          ...[fc1, fc2, fc3].map((each) => each?.zeros),
          random() < 0.3 ? drawn(type, [tokens, experts], random) : undefined,
        ];
  const areWords = [hidden, inner].every((k) => ((block === 0 ? k : block) * (bits ?? 0)) % 32 === 0);
  const byKernels = bits !== undefined && !third && areWords && !(hasZeros && block === 0) ? ofBlocks : kernels;
  const inputs = [randomNumbers(random, type, [tokens, hidden]), scaled(type, [tokens, experts], 3), ...weights];
  return {
    byKernels,
    call: {
      op: bits === undefined ? "MoE" : "QMoE",
      domain,
      opset: 1,
      attrs: {
        k: mixer ? 2 : pick(1, 2, Math.min(4, experts)),
        activation_type: activation,
        normalize_routing_weights: pick(0, 1),
        use_sparse_mixer: mixer ? 1 : 0,
        swiglu_fusion: isFused ? pick(0, 1, 2) : 0,
        ...(activation === "swiglu" && {
          activation_alpha: { kind: "float", value: Math.fround(1.702) },
          activation_beta: { kind: "float", value: 1 },
          ...(random() < 0.5 && { swiglu_limit: { kind: "float", value: 0.75 } }),
        }),
        ...(bits !== undefined && { expert_weight_bits: bits, block_size: block === 0 ? pick(0, 2 ** 32) : block }),
      },
      inputs,
      ...(random() < 0.5 && { constants: inputs.flatMap((_, at) => (at >= 2 && at < 14 ? [at] : [])) }),
    },
    tolerance: type === "float32" ? 2e-4 : type === "float16" ? 2e-2 : 0.1,
  };
}

describe.skipIf(noWebgpu !== undefined)("experts on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test("calls at random are the reference's", async () => {
    for (let seed = 0; seed < (soak ? 200 : 24); seed++) {
      const { call, tolerance, byKernels } = callOf(seed);
      const difference = await differenceOf(call, byKernels, tolerance);
      expect(difference, `seed ${seed}: ${call.op} ${JSON.stringify(call.attrs)}`).toBe("");
    }
  });

  test.each([32, 64])("calls at random in subgroups of %i", async (size) => {
    const place = PlacedSession.place(gpuWithSubgroups(size));
    const options = { webgpu: { subgroupMatrices: false } };
    for (let seed = 0; seed < (soak ? 60 : 12); seed++) {
      const { call, tolerance, byKernels } = callOf(seed);
      const difference = await differenceOf(call, byKernels, tolerance, options, place);
      expect(difference, `seed ${seed}: ${call.op} ${JSON.stringify(call.attrs)}`).toBe("");
    }
  });

  test("of equal scores the last experts are taken, and NaN comes last", async () => {
    const weights = drawn("float32", [4, 2, 2], randomFrom(5));
    const scores = drawn(
      "float32",
      [4, 4],
      (
        (all) => () =>
          all.shift()!
      )([1, 1, 1, 1, NaN, 0, -0, -1, -Infinity, 2, 2, -Infinity, NaN, -1, -2, NaN]),
    );
    for (const router of [undefined, drawn("float32", [4, 4], randomFrom(6))]) {
      const none = new Array<undefined>(11).fill(undefined);
      const plain = [drawn("float32", [4, 2], randomFrom(7)), scores, weights, undefined, weights];
      const levels = drawn(
        "uint8",
        [4, 2, 2],
        (
          (random) => () =>
            Math.floor(256 * random())
        )(randomFrom(8)),
      );
      const scales = drawn("float32", [4, 2], randomFrom(9));
      const quantized = [plain[0], scores, levels, scales, undefined, levels, scales, ...none.slice(0, 7), router];
      const call: OneNode = {
        op: router === undefined ? "MoE" : "QMoE",
        domain,
        opset: 1,
        attrs: {
          k: 2,
          activation_type: "identity",
          normalize_routing_weights: 1,
          ...(router && { expert_weight_bits: 8 }),
        },
        inputs: router === undefined ? plain : quantized,
      };
      expect(await differenceOf(call, kernels, router === undefined ? 1e-5 : 0.05)).toBe("");
    }
  });
});
