// LinearAttention on WebGPU against the reference implementation: every rule, gates for each row and for all, states held and given, groups of heads.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { keepDevice } from "../../support/device.js";
import { differenceOf, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const rules = ["linear", "gated", "delta", "gated_delta"] as const;

interface Form {
  readonly type?: "float16";
  readonly held: boolean;
  readonly hasPast: boolean;
}

function call(random: () => number, rule: (typeof rules)[number], { type, held, hasPast }: Form): OneNode {
  const [batch, shared, group] = [
    1 + Math.floor(random() * 2),
    1 + Math.floor(random() * 3),
    1 + Math.floor(random() * 2),
  ];
  const [length, size, valueSize] = [
    1 + Math.floor(random() * 6),
    4 + Math.floor(random() * 5),
    3 + Math.floor(random() * 70),
  ];
  const make = (shape: readonly number[]): View => randomNumbers(random, type ?? "float32", shape);
  const gates = make([batch, length, shared * (random() < 0.5 ? 1 : size)]);
  const rates = make([batch, length, random() < 0.5 ? 1 : shared]);
  return {
    op: "LinearAttention",
    opset: 27,
    attrs: { q_num_heads: group * shared, kv_num_heads: shared, update_rule: rule },
    inputs: [
      make([batch, length, group * shared * size]),
      make([batch, length, shared * size]),
      make([batch, length, shared * valueSize]),
      hasPast ? make([batch, shared, size, valueSize]) : undefined,
      rule.startsWith("gated") ? gates : undefined,
      rule.endsWith("delta") ? rates : undefined,
    ],
    outputs: [true, true],
    ...(held ? { held: { 3: 1 } } : {}),
  };
}

describe.skipIf(noWebgpu !== undefined)("LinearAttention on WebGPU", () => {
  let letGo: () => Promise<void>;
  beforeAll(async () => {
    letGo = await keepDevice();
  });
  afterAll(() => letGo());

  test.each(rules)("%s", async (rule) => {
    const random = randomFrom(rule.length);
    for (const form of [
      { held: true, hasPast: true },
      { held: false, hasPast: true },
      { held: false, hasPast: false },
      { held: true, hasPast: true, type: "float16" },
      { held: false, hasPast: false, type: "float16" },
    ] as const)
      expect(await differenceOf(call(random, rule, form), ["linearAttention"], "type" in form ? 4e-3 : 1e-4)).toBe("");
  });
});
