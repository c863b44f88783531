// MatMulBnb4's fast path beside its reference: FP4 and NF4, blocks of all sizes, few rows and many, every float type; rows come out alike whatever their number is,
// and, where it is installed, onnxruntime has the same numbers.
import { expect, test } from "vitest";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { InferenceSession } from "../../src/entry/node.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { handOver, installed, openPeer } from "../rewrite/peer.js";
import { type FastCall, randomFrom, randomView } from "./fast-path.js";
import { checking, floats, pick, type Random, rounds, useVariants } from "./light-checks.js";

const check = checking(useVariants());
const domain = "com.microsoft";

interface Sizes {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly block: number;
}

const bytesOf = (random: Random, count: number): View => {
  const view = View.allocate("uint8", [count]);
  (view.data as Uint8Array).forEach((_, at, all) => (all[at] = Math.floor(random() * 256)));
  return view;
};

function callOf(random: Random, { m, n, k, block }: Sizes, attrs: object = {}): FastCall {
  const type = pick(random, floats);
  return {
    op: "MatMulBnb4",
    domain,
    attrs: { K: k, N: n, block_size: block, quant_type: pick(random, [0, 1]), ...attrs },
    inputs: [
      { view: randomView(random, type, [m, k], { spread: 2 }), as: pick(random, ["fed", "computed"]) },
      { view: bytesOf(random, Math.ceil((n * k) / 2)), as: pick(random, ["fed", "constant"]) },
      { view: randomView(random, type, [Math.ceil((n * k) / block)], { spread: 1 }), as: "constant" },
    ],
    // Sums of float32, rounded to the type.
    relative: { float32: 1e-5, float16: 2e-3, bfloat16: 2e-2 }[type],
    absolute: { float32: 1e-4, float16: 1e-2, bfloat16: 1e-1 }[type],
  };
}

test("random products", async () => {
  const random = randomFrom(61);
  for (let round = 0; round < 4 * rounds; round++) {
    const block = pick(random, [16, 32, 64, 128]);
    const k = block * pick(random, [1, 2, 3, 5]);
    await check(
      callOf(random, { m: pick(random, [1, 2, 3, 4, 5, 8, 9, 33]), n: pick(random, [1, 2, 7, 40]), k, block }),
    );
  }
});

test("blocks that go on from row to row, and weights that are not transposed, are the reference implementation's", async () => {
  const random = randomFrom(62);
  await check(callOf(random, { m: 2, n: 4, k: 24, block: 16 }), false);
  await check(callOf(random, { m: 2, n: 32, k: 32, block: 32 }, { transB: 0 }), false);
});

/** A model of one product with constant weights. */
function modelOf({ n, k, block }: Sizes, kind: number): Uint8Array {
  const random = randomFrom(63);
  const scales = Float32Array.from({ length: (n * k) / block }, () => random());
  const attributes = { K: k, N: n, block_size: block, quant_type: kind };
  return writeModel(
    buildModel({
      opset: { "": 21, [domain]: 1 },
      inputs: [value("a", "float32", ["rows", k])],
      outputs: [value("c", "float32", ["rows", n])],
      nodes: [node("MatMulBnb4", ["a", "b", "scales"], ["c"], attributes, { domain })],
      initializers: [
        initializer("b", Tensor.fromView(bytesOf(random, (n * k) / 2))),
        initializer("scales", "float32", scales, [scales.length]),
      ],
    }),
  );
}

test("rows come out alike, and as onnxruntime has them", async () => {
  const sizes = { m: 9, n: 33, k: 192, block: 64 };
  const random = randomFrom(64);
  const a = Float32Array.from({ length: sizes.m * sizes.k }, () => random() - 0.5);
  for (const kind of [0, 1]) {
    const model = modelOf(sizes, kind);
    const session = await InferenceSession.create(model, { threads: 2 });
    const run = async (from: number, count: number): Promise<Float32Array> => {
      const rows = a.slice(from * sizes.k, (from + count) * sizes.k);
      const { c } = await session.run({ a: new Tensor("float32", rows, [count, sizes.k]) });
      return c.data as Float32Array;
    };
    const whole = await run(0, sizes.m);
    for (let row = 0; row < sizes.m; row++)
      expect(await run(row, 1)).toEqual(whole.slice(row * sizes.n, (row + 1) * sizes.n));
    await session.release();
    if (!installed) continue;
    const other = await openPeer(model);
    const { c } = await other.run({ a: handOver(new Tensor("float32", a, [sizes.m, sizes.k])) });
    for (const [at, number] of (c.data as Float32Array).entries())
      expect(Math.abs(whole[at] - number)).toBeLessThan(1e-5);
    await other.release();
  }
});
