// MatMulNBits at the accuracy levels that allow no rounding of activations: every result is as near to the sum in float64 as sums in float32
// are, also where one activation is far larger than the others; and no further off than onnxruntime's, where that is installed.
import { afterAll, beforeAll, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { handOver, installed, openPeer } from "../rewrite/peer.js";
import { openVariant, planOf, type Variant } from "./fast-path.js";
import { runOn } from "../support/executable.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 4_501);
const rounds = soak ? 600 : 40;
const domain = "com.microsoft";

interface Product {
  readonly text: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly attrs: Readonly<Record<string, number>>;
  readonly a: Float32Array;
  readonly b: Uint8Array;
  readonly scales: Float32Array;
  readonly zeros: Uint8Array | undefined;
  /** The sums in float64, and the sums of the terms' magnitudes. */
  readonly exact: Float64Array;
  readonly size: Float64Array;
}

function productOf(number: number): Product {
  const random = seededRandom(number);
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)];
  const [bits, blockSize] = [pick([4, 4, 8, 8, 2]), pick([16, 32, 64, 128])];
  const [m, n, k] = [pick([1, 1, 2, 3, 4, 7, 13, 33]), pick([1, 5, 8, 20]), pick([16, 33, 100, 256, 700, 1500])];
  const blocks = Math.ceil(k / blockSize);
  const row = blocks * blockSize;
  const kind = pick(["even", "outliers", "tiny", "huge"]);
  const a = Float32Array.from({ length: m * k }, () => {
    const x = random() * 2 - 1;
    if (kind === "outliers") return random() < 0.02 ? x * 1e6 : x * 1e-3;
    return kind === "tiny" ? x * 1e-20 : kind === "huge" ? x * 1e20 : x;
  });
  const levels = Uint8Array.from({ length: n * row }, () => Math.floor(random() * 2 ** bits));
  const middles = Uint8Array.from({ length: n * blocks }, () => Math.floor(random() * 2 ** bits));
  const scales = Float32Array.from({ length: n * blocks }, () => (random() - 0.5) * 0.1);
  const hasZeros = random() < 0.5;
  const pack = (values: Uint8Array, length: number): Uint8Array => {
    const bytes = Math.ceil((length * bits) / 8);
    const packed = new Uint8Array((values.length / length) * bytes);
    values.forEach((each, at) => {
      const bit = (at % length) * bits;
      packed[Math.floor(at / length) * bytes + (bit >> 3)] |= each << (bit & 7);
    });
    return packed;
  };
  const [exact, size] = [new Float64Array(m * n), new Float64Array(m * n)];
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++)
      for (let l = 0; l < k; l++) {
        const block = j * blocks + Math.floor(l / blockSize);
        const middle = hasZeros ? middles[block] : 2 ** (bits - 1);
        const term = a[i * k + l] * (levels[j * row + l] - middle) * scales[block];
        exact[i * n + j] += term;
        size[i * n + j] += Math.abs(term);
      }
  const level = pick([0, 1]);
  const attrs = { K: k, N: n, bits, block_size: blockSize, accuracy_level: level };
  return {
    text: JSON.stringify({ number, m, ...attrs, kind, hasZeros }),
    m,
    n,
    k,
    attrs,
    a,
    b: pack(levels, row),
    scales,
    zeros: hasZeros ? pack(middles, blocks) : undefined,
    exact,
    size,
  };
}

/** The largest error, in units of what rounding once makes of the terms' magnitudes. */
function errorOf(actual: ArrayLike<number>, { exact, size }: Product): number {
  let worst = 0;
  exact.forEach((sum, at) => {
    const error = Math.abs(actual[at] - sum);
    worst = Math.max(worst, Number.isNaN(error) ? Infinity : size[at] === 0 ? error * Infinity || 0 : error / size[at]);
  });
  return worst / 2 ** -24;
}

const tensorsOf = ({ a, b, scales, zeros, m, n, k, attrs }: Product): (Tensor | undefined)[] => {
  const blocks = Math.ceil(k / attrs["block_size"]);
  return [
    new Tensor("float32", a, [m, k]),
    new Tensor("uint8", b, [n, blocks, b.length / n / blocks]),
    new Tensor("float32", scales, [n, blocks]),
    zeros && new Tensor("uint8", zeros, [n, zeros.length / n]),
  ];
};

function modelOf(product: Product): Uint8Array {
  const [, b, scales, zeros] = tensorsOf(product);
  return writeModel(
    buildModel({
      opset: { "": 21, [domain]: 1 },
      inputs: [value("a", "float32", [product.m, product.k])],
      outputs: [value("y", "float32", [product.m, product.n])],
      initializers: [
        initializer("b", b!),
        initializer("s", scales!),
        ...(zeros === undefined ? [] : [initializer("z", zeros)]),
      ],
      nodes: [node("MatMulNBits", ["a", "b", "s", zeros === undefined ? "" : "z"], ["y"], product.attrs, { domain })],
    }),
  );
}

let variants: readonly Variant[];
beforeAll(async () => {
  variants = [await openVariant(1, true), await openVariant(2, false), await openVariant(3, true)];
});
afterAll(() => variants.forEach(({ session }) => session.release()));

/** Roundings that a sum of so many terms may take: lanes are summed apart, and blocks have a sum of their own. */
const allowed = (k: number): number => 4 + Math.sqrt(k);

test(`${rounds} products from seed ${seed}, at accuracy levels 0 and 1`, async () => {
  let worst = 0;
  for (let round = 0; round < rounds; round++) {
    const product = productOf(seed + round);
    const variant = variants[round % variants.length];
    const inputs = tensorsOf(product).map(
      (tensor, at) => tensor && { view: tensor.toView(), as: at === 0 ? ("fed" as const) : ("constant" as const) },
    );
    const plan = planOf({ op: "MatMulNBits", domain, attrs: product.attrs, inputs });
    const executable = variant.session.prepare(plan);
    const before = variant.taken.get("MatMulNBits") ?? 0;
    const views = [inputs[0]!.view];
    const results = await runOn(executable, views);
    const error = errorOf(results.get(plan.graph.outputs[0])!.data as Float32Array, product);
    worst = Math.max(worst, error / allowed(product.k));
    expect(error, `${product.text}, ${variant.name}`).toBeLessThan(allowed(product.k));
    expect(variant.taken.get("MatMulNBits"), "the kernel was taken").toBe(before + 1);
  }
  console.log(`the worst sum took ${worst.toFixed(2)} of the roundings that are allowed`);
});

test.runIf(installed)("no further off than onnxruntime", async () => {
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const product = productOf(seed + round);
    if (product.attrs["bits"] === 2) continue; // it has no kernel for those
    const bytes = modelOf(product);
    const peer = await openPeer(bytes);
    const [a] = tensorsOf(product);
    const { y } = await peer.run({ a: handOver(a!) });
    const session = await InferenceSession.create(bytes, { backend: "wasm", threads: 2 });
    const result = await session.run({ a: a! });
    await session.release();
    ours.push(errorOf(result["y"].data as Float32Array, product));
    theirs.push(errorOf(y.data as Float32Array, product));
  }
  const mean = (errors: readonly number[]): number => errors.reduce((a, b) => a + b) / errors.length;
  console.log(
    `largest errors of ${ours.length} products, in roundings: ${mean(ours).toFixed(2)} on average, onnxruntime's ${mean(theirs).toFixed(2)}`,
  );
  expect(mean(ours)).toBeLessThan(2 * mean(theirs));
});
