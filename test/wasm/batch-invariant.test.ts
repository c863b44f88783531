// With batchInvariant a row of a product comes out the same, bit for bit, whatever number of rows it is computed with; and right. Paged runs
// whose tokens are samples of their own lead to the same logits in whatever chunks and beside whatever others they are read.
import { describe, expect, test } from "vitest";
import { CausalLM, Tensor } from "../../src/index.node.js";
import { InferenceSession } from "../../src/entry/node.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { embedded } from "../generate/support.js";
import { Random } from "../kernels/workbench.js";

const counts = [1, 2, 3, 4, 5, 7, 9, 12, 17];

/** A product of rows with constant weights. */
interface Product {
  readonly what: string;
  readonly k: number;
  readonly bytes: Uint8Array;
}

function blocks(random: Random, bits: number, blockSize: number, level: number, more: "bias" | "zeros" | ""): Product {
  const [k, n] = [blockSize * 3 - (bits === 8 ? 0 : 8), 27];
  const count = Math.ceil(k / blockSize);
  const byteCount = (blockSize * bits) / 8;
  const bytesOf = (length: number): Uint8Array => Uint8Array.from({ length }, () => random.integer(0, 255));
  const zeroBytes = Math.ceil((count * bits) / 8);
  const attributes: Record<string, AttributeInput> = { K: k, N: n, bits, block_size: blockSize, accuracy_level: level };
  const bytes = writeModel(
    buildModel({
      opset: { "": 21, "com.microsoft": 1 },
      inputs: [value("x", "float32", ["rows", k])],
      outputs: [value("y", "float32", ["rows", n])],
      initializers: [
        initializer("w", "uint8", bytesOf(n * count * byteCount), [n, count, byteCount]),
        initializer("scales", "float32", random.floats(n * count, 0.1), [n, count]),
        ...(more === "zeros" ? [initializer("zeros", "uint8", bytesOf(n * zeroBytes), [n, zeroBytes])] : []),
        ...(more === "bias" ? [initializer("bias", "float32", random.floats(n), [n])] : []),
      ],
      nodes: [
        node(
          "MatMulNBits",
          ["x", "w", "scales", ...(more === "zeros" ? ["zeros"] : more === "bias" ? ["", "", "bias"] : [])],
          ["y"],
          attributes,
          { domain: "com.microsoft" },
        ),
      ],
    }),
  );
  return { what: `${bits} bits in blocks of ${blockSize}, level ${level}, ${more}`, k, bytes };
}

function plain(random: Random, transposed: boolean): Product {
  const [k, n] = [70, 33];
  const bytes = writeModel(
    buildModel({
      opset: 21,
      inputs: [value("x", "float32", ["rows", k])],
      outputs: [value("y", "float32", ["rows", n])],
      initializers: [initializer("w", "float32", random.floats(k * n), transposed ? [n, k] : [k, n])],
      nodes: [node("Gemm", ["x", "w"], ["y"], { transB: transposed ? 1 : 0 })],
    }),
  );
  return { what: `float32${transposed ? ", transposed" : ""}`, k, bytes };
}

describe("rows that come out alike", () => {
  const random = new Random(4242);
  const products = [
    ...[8, 4].flatMap((bits) =>
      [32, 128].flatMap((size) =>
        [0, 2, 4].flatMap((level) =>
          (["", "bias", "zeros"] as const).map((more) => blocks(random, bits, size, level, more)),
        ),
      ),
    ),
    blocks(random, 4, 16, 2, ""),
    plain(random, false),
    plain(random, true),
  ];
  for (const relaxedSimd of [true, false])
    test(`products, ${relaxedSimd ? "relaxed" : "plain"} SIMD`, async () => {
      for (const { what, k, bytes } of products.filter((_, at) => relaxedSimd || at % 3 === 0)) {
        const session = await InferenceSession.create(bytes, { batchInvariant: true, wasm: { relaxedSimd } });
        const truth = await InferenceSession.create(bytes, { backend: "reference" });
        const most = Math.max(...counts);
        const rows = random.floats(most * k);
        const run = async (from: typeof session, count: number, first = 0): Promise<Float32Array> => {
          const x = new Tensor("float32", rows.slice(first * k, (first + count) * k), [count, k]);
          return ((await from.run({ x })) as Record<string, Tensor>)["y"].data as Float32Array;
        };
        const all = await run(session, most);
        const n = all.length / most;
        for (const count of counts)
          for (const first of [0, most - count])
            expect(await run(session, count, first), `${what}, ${count} rows`).toEqual(
              all.slice(first * n, (first + count) * n),
            );
        const expected = await run(truth, most);
        const size = Math.max(...expected.map(Math.abs));
        const worst = Math.max(...all.map((y, at) => Math.abs(y - expected[at])));
        expect(worst / size, what).toBeLessThan(what.includes("level 4") ? 2e-2 : 1e-4);
        await session.release();
        await truth.release();
      }
    });

  test("tokens on pages, in whatever chunks and beside whatever others", async () => {
    const model = await CausalLM.load(embedded, {
      cache: "paged",
      batchInvariant: true,
      context: 100,
      keep: 0,
      blocks: 40,
    });
    const { pages, step } = { pages: model.pages!, step: model.pagedDecoder!.step.bind(model.pagedDecoder!) };
    const tokens = Array.from({ length: 90 }, () => random.integer(1, 4000));
    const read = async (parts: readonly number[]): Promise<Float32Array> => {
      const sequence = pages.pool.add();
      let logits = new Float32Array();
      for (let at = 0, index = 0; index < parts.length; at += parts[index++])
        logits = (await step([{ sequence, tokens: tokens.slice(at, at + parts[index]) }])).at(0)!.slice();
      sequence.release();
      pages.pool.forgetPrefixes();
      return logits;
    };
    const whole = await read([90]);
    expect(await read([7, 33, 1, 1, 48])).toEqual(whole);
    expect(await read([64, 26])).toEqual(whole);
    const [one, other] = [pages.pool.add(), pages.pool.add()];
    await step([
      { sequence: one, tokens: tokens.slice(0, 50) },
      { sequence: other, tokens: tokens.slice(3, 20) },
    ]);
    const beside = await step([
      { sequence: other, tokens: tokens.slice(20, 21) },
      { sequence: one, tokens: tokens.slice(50, 90) },
    ]);
    expect(beside[1]).toEqual(whole);
    // As padded runs compute them, but for rounding.
    const plainModel = await CausalLM.load(embedded, { cache: "paged", context: 100, keep: 0, blocks: 40 });
    const [{ last }] = await plainModel.pages!.step([{ sequence: plainModel.pages!.pool.add(), tokens }]);
    expect(Math.max(...last.map((logit, at) => Math.abs(logit - whole[at])))).toBeLessThan(1e-2);
    await model.release();
    await plainModel.release();
  });
});
