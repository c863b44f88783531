// Rotary embedding on WebGPU, ONNX's and onnxruntime's, against the reference implementation: layouts, partial turns, positions of every form.
import { describe, expect, test } from "vitest";
import { noWebgpu } from "../../support/backends.js";
import { differenceOf, integers, type OneNode, randomFrom, randomNumbers } from "./one-node.js";

const pick = <const T>(random: () => number, of: readonly T[]): T => of[Math.floor(random() * of.length)];

const tolerances = { float32: 1e-5, float16: 4e-3, bfloat16: 3e-2 };

function rotary(random: () => number, type: keyof typeof tolerances): OneNode {
  const microsoft = random() < 0.4;
  const [batch, heads, length] = [pick(random, [1, 3]), pick(random, [1, 2, 7]), pick(random, [1, 5, 33])];
  const size = pick(random, [2, 6, 32, 80]);
  const partial = size > 2 && random() < 0.5 ? size / 2 - ((size / 2) % 2) : 0;
  const pairs = (partial === 0 ? size : partial) / 2;
  const packed = random() < 0.5;
  const rows = 40;
  const x = randomNumbers(random, type, packed ? [batch, length, heads * size] : [batch, heads, length, size]);
  const attrs = {
    interleaved: random() < 0.5 ? 1 : 0,
    rotary_embedding_dim: partial,
    ...(packed || microsoft ? { num_heads: heads } : {}),
  };
  const each = integers(
    "int64",
    Array.from(
      { length: batch * length },
      () => Math.floor(random() * rows) - (microsoft || random() < 0.8 ? 0 : rows),
    ),
    [batch, length],
  );
  const tables = [1, 2].map(() => randomNumbers(random, type, [rows, pairs]));
  if (microsoft) {
    const positions = random() < 0.5 ? each : integers("int64", [Math.floor(random() * (rows - length))]);
    return { op: "RotaryEmbedding", domain: "com.microsoft", opset: 1, attrs, inputs: [x, positions, ...tables] };
  }
  const given = random() < 0.7;
  const angles = [1, 2].map(() => randomNumbers(random, type, [batch, length, pairs]));
  return { op: "RotaryEmbedding", opset: 23, attrs, inputs: given ? [x, ...tables, each] : [x, ...angles] };
}

describe.skipIf(noWebgpu !== undefined)("rotary embedding on WebGPU", () => {
  test.each(["float32", "float16", "bfloat16"] as const)("%s", async (type) => {
    const random = randomFrom(7);
    const problems: string[] = [];
    for (let round = 0; round < 25; round++) {
      const call = rotary(random, type);
      const problem = await differenceOf(call, ["rotate"], tolerances[type]);
      if (problem !== "")
        problems.push(`${round}: ${call.inputs.join(", ")} ${JSON.stringify(call.attrs)}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });
});
