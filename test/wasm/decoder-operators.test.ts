// The kernels of experts, linear attention and causal convolutions beside their reference implementations: types, sizes that are no multiple of a vector, prompts
// and single tokens, few experts and many. What onnxruntime answers is in test/conformance.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { writeNumbers } from "../../src/tensor/access.js";
import { type FastCall, openVariant, randomFrom, randomView, seed, tryCall, type Variant } from "./fast-path.js";
import { soak } from "../support/soak.js";

const rounds = soak ? 500 : 40;
const domain = "com.microsoft";
let variants: Variant[] = [];

beforeAll(async () => {
  variants = [await openVariant(1, false), await openVariant(2, true), await openVariant(2, true, true)];
});
afterAll(async () => {
  await Promise.all(variants.map(({ session }) => session.release()));
});

interface Draw {
  readonly random: () => number;
  readonly pick: <T>(...choices: readonly T[]) => T;
  readonly of: (type: ElementType, shape: readonly number[], spread?: number) => View;
}

function drawFrom(number: number): Draw {
  const random = randomFrom(number);
  return {
    random,
    pick: (...choices) => choices[Math.floor(random() * choices.length)],
    of: (type, shape, spread = 1) => randomView(random, type, shape, { spread }),
  };
}

const bytesOf = ({ random }: Draw, shape: readonly number[]): View => {
  const view = View.allocate("uint8", shape);
  writeNumbers(
    view,
    Array.from({ length: view.size }, () => Math.floor(random() * 256)),
  );
  return view;
};

/** Numbers from 0 to `end`. */
const uniform = ({ random }: Draw, type: ElementType, shape: readonly number[], end: number): View => {
  const view = View.allocate(type, shape);
  writeNumbers(
    view,
    Array.from({ length: view.size }, () => end * random()),
  );
  return view;
};

/** One call of MoE or QMoE, with every option that they have. */
function expertCall(draw: Draw): FastCall {
  const { pick, of, random } = draw;
  const bits = pick(undefined, 4, 4, 8, 2);
  const type = pick<ElementType>("float32", "float32", "float16", "bfloat16");
  const [experts, tokens] = [pick(2, 3, 8, 17), pick(1, 1, 2, 4, 13, 40)];
  const block = bits === undefined ? 0 : pick(0, 16, 32, 64);
  const sizes = block === 0 ? [8, 24, 32, 64, 96] : [64, 128];
  const [hidden, inner] = [pick(...sizes), pick(...sizes)];
  const activation = pick("swiglu", "swiglu", "swiglu", "silu", "gelu", "relu", "identity");
  const third = random() < 0.3;
  const fusion = activation === "swiglu" && !third ? pick(0, 1, 2) : 0;
  const wide = activation === "swiglu" && !third ? 2 * inner : inner;
  const perByte = bits === undefined ? 1 : 8 / bits;
  const scaleType = bits === undefined ? type : pick(type, "float32");
  const [hasBias, hasZeros] = [random() < 0.5, random() < 0.4];
  const product = (rows: number, columns: number, there = true): (View | undefined)[] => {
    const names: (View | undefined)[] = [undefined, undefined, undefined, undefined];
    if (!there) return names;
    const blocks = block === 0 ? 1 : columns / block;
    const dims = block === 0 ? [experts, rows] : [experts, rows, blocks];
    const scale = 2 / Math.sqrt(columns);
    return [
      bits === undefined
        ? of(type, [experts, rows, columns], scale)
        : bytesOf(draw, [experts, rows, columns / perByte]),
      bits === undefined ? undefined : of(scaleType, dims, scale / 2 ** (bits - 1)),
      hasBias ? of(type, [experts, rows], 0.5) : undefined,
      hasZeros && bits !== undefined
        ? bytesOf(
            draw,
            block === 0 ? [experts, Math.ceil(rows / perByte)] : [experts, rows, Math.ceil(blocks / perByte)],
          )
        : undefined,
    ];
  };
  const [first, second, linear] = [product(wide, hidden), product(hidden, inner), product(inner, hidden, third)];
  const mixer = random() < 0.15;
  const views =
    bits === undefined
      ? [first[0], first[2], second[0], second[2], linear[0], linear[2]]
      : [
          ...first.slice(0, 3),
          ...second.slice(0, 3),
          ...linear.slice(0, 3),
          first[3],
          second[3],
          linear[3],
          random() < 0.3 ? uniform(draw, type, [tokens, experts], 1) : undefined,
        ];
  const k = mixer ? 2 : pick(1, 2, Math.min(4, experts));
  const as = pick<"fed" | "constant">("fed", "constant");
  return {
    op: bits === undefined ? "MoE" : "QMoE",
    domain,
    attrs: {
      k,
      activation_type: activation,
      normalize_routing_weights: pick(0, 1),
      use_sparse_mixer: mixer ? 1 : 0,
      swiglu_fusion: fusion,
      ...(activation === "swiglu" && {
        activation_alpha: { kind: "float", value: Math.fround(1.702) },
        activation_beta: { kind: "float", value: 1 },
        ...(random() < 0.5 && { swiglu_limit: { kind: "float", value: 0.75 } }),
      }),
      ...(bits !== undefined && { expert_weight_bits: bits, block_size: block }),
    },
    inputs: [
      { view: of(type, [tokens, hidden]) },
      { view: of(type, [tokens, experts], 3) },
      ...views.map((view, at) => view && { view, as: at < 12 ? as : ("fed" as const) }),
    ],
    ...(type === "float32" ? { relative: 2e-4, absolute: 2e-4 } : { relative: 2e-2, absolute: 2e-2 }),
  };
}

function attentionCall(draw: Draw): FastCall {
  const { pick, of, random } = draw;
  const type = pick<ElementType>("float32", "float32", "float16", "bfloat16");
  const rule = pick("linear", "gated", "delta", "gated_delta");
  const [batch, tokens] = [pick(1, 2), pick(1, 1, 2, 4, 7, 33, 70)];
  const [queries, states] = pick([2, 2], [6, 2], [2, 4], [1, 3]);
  const keys = queries > states ? states : queries;
  const [size, valueSize] = [pick(1, 4, 7, 16, 32), pick(1, 3, 8, 16, 24, 30)];
  const stateType = pick<ElementType>("float32", type);
  const perKey = random() < 0.5;
  return {
    op: "LinearAttention",
    domain,
    attrs: { update_rule: rule, q_num_heads: queries, kv_num_heads: states },
    inputs: [
      { view: of(type, [batch, tokens, queries * size]) },
      { view: of(type, [batch, tokens, keys * size], 1 / Math.sqrt(size)) },
      { view: of(type, [batch, tokens, states * valueSize]) },
      random() < 0.8 || stateType !== type ? { view: of(stateType, [batch, states, size, valueSize]) } : undefined,
      rule.startsWith("gated")
        ? { view: uniform(draw, type, [batch, tokens, perKey ? states * size : states], -1) }
        : undefined,
      rule.endsWith("delta") ? { view: of(type, [batch, tokens, pick(1, states)], 0.5) } : undefined,
    ],
    outputs: [true, true],
    ...(type === "float32" ? { relative: 1e-4, absolute: 1e-4 } : { relative: 2e-2, absolute: 2e-2 }),
  };
}

function convolutionCall({ pick, of, random }: Draw): FastCall {
  const type = pick<ElementType>("float32", "float32", "float16", "bfloat16");
  const [batch, channels, length] = [pick(1, 2), pick(1, 4, 6, 21), pick(1, 1, 1, 3, 4, 18)];
  const kernel = pick(1, 2, 4, 4, 5);
  return {
    op: "CausalConvWithState",
    domain,
    attrs: { activation: pick("none", "silu") },
    inputs: [
      { view: of(type, [batch, channels, length], 3) },
      { view: of(type, [channels, 1, kernel]), as: "constant" },
      random() < 0.5 ? { view: of(type, [channels]), as: "constant" } : undefined,
      random() < 0.8 ? { view: of(type, [batch, channels, kernel - 1]) } : undefined,
    ],
    outputs: [true, true],
    ...(type === "float32" ? { relative: 1e-5, absolute: 1e-5 } : { relative: 2e-2, absolute: 2e-2 }),
  };
}

test.each([
  ["experts", expertCall],
  ["linear attention", attentionCall],
  ["causal convolutions", convolutionCall],
] as const)("%s", async (name, callOf) => {
  for (let round = 0; round < rounds; round++) {
    const call = callOf(drawFrom(round * 31 + name.length));
    for (const variant of variants) {
      const { difference, taken } = await tryCall(variant, call);
      const shapes = call.inputs.map((feed) => String(feed?.view)).join(" ");
      expect(
        { difference, taken: taken > 0 },
        `${seed} ${variant.name} ${JSON.stringify(call.attrs)} ${shapes}`,
      ).toEqual({
        difference: "",
        taken: true,
      });
    }
  }
});
