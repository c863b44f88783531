// SharedProducts: products of one value that the passes make one step of. Each is, bit for bit, what it is alone, is near the sum in float64,
// and near onnxruntime's where that is installed; products that do not go together, and more than three, stay apart.
import { afterAll, expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, initializer, type AttributeInput, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { handOver, installed, openPeer } from "../rewrite/peer.js";
import { atTheEnd, MemoryEnd, prepare } from "../support/memory-end.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 7_301);
const rounds = soak ? 600 : 40;
const domain = "com.microsoft";

interface Products {
  readonly text: string;
  readonly m: number;
  readonly k: number;
  readonly bits: number;
  readonly columns: readonly number[];
  readonly model: Uint8Array;
  readonly a: Tensor;
  /** Of each product the sums in float64, and a bound on what rounding may take from each. */
  readonly exact: readonly Float64Array[];
  readonly bound: readonly Float64Array[];
}

const text = (attrs: object): string => JSON.stringify(attrs);

/** Products of one value, with one form. */
function productsOf(number: number, given: { readonly m?: number; readonly count?: number } = {}): Products {
  const random = seededRandom(number);
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)];
  const [bits, blockSize] = [pick([4, 4, 8, 8, 2]), pick([16, 32, 64])];
  const m = given.m ?? pick([1, 1, 1, 2, 3, 5, 13, 33]);
  const k = pick([16, 33, 100, 256, 700]);
  const columns = Array.from({ length: given.count ?? pick([2, 3]) }, () => pick([1, 5, 8, 20, 67]));
  const [hasZeros, hasBias, level] = [random() < 0.4, random() < 0.4, pick([0, 1, 2, 4, 4])];
  const blocks = Math.ceil(k / blockSize);
  const a = Float32Array.from({ length: m * k }, () => random() * 2 - 1);
  const bytesOf = (length: number): number => Math.ceil((length * bits) / 8);
  const [exact, bound]: [Float64Array[], Float64Array[]] = [[], []];
  const initializers: ReturnType<typeof initializer>[] = [];
  const nodes = columns.map((n, at) => {
    const b = Uint8Array.from({ length: n * blocks * bytesOf(blockSize) }, () => random() * 256);
    const scales = Float32Array.from({ length: n * blocks }, () => (random() - 0.5) * 0.1);
    const zeros = Uint8Array.from({ length: n * bytesOf(blocks) }, () => random() * 256);
    const bias = Float32Array.from({ length: n }, () => random());
    const levelAt = (bytes: Uint8Array, start: number, index: number): number =>
      (bytes[start + ((index * bits) >> 3)] >> ((index * bits) & 7)) & (2 ** bits - 1);
    exact.push(new Float64Array(m * n));
    bound.push(new Float64Array(m * n));
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        let [sum, size] = [hasBias ? bias[column] : 0, 0];
        for (let inner = 0; inner < k; inner++) {
          const block = Math.floor(inner / blockSize);
          const middle = hasZeros ? levelAt(zeros, column * bytesOf(blocks), block) : 2 ** (bits - 1);
          const weight = levelAt(b, column * blocks * bytesOf(blockSize), inner) - middle;
          sum += a[row * k + inner] * weight * scales[column * blocks + block];
          size += Math.abs(weight * scales[column * blocks + block]);
        }
        exact[at][row * n + column] = sum;
        // Activations below 1 that are rounded to 8 bits are off by 1/254 at most.
        bound[at][row * n + column] = 1e-5 + size * (level === 4 ? 1 / 250 : 1e-4);
      }
    initializers.push(
      initializer(`b${at}`, new Tensor("uint8", b, [n, blocks, bytesOf(blockSize)])),
      initializer(`s${at}`, new Tensor("float32", scales, [n, blocks])),
      ...(hasZeros ? [initializer(`z${at}`, new Tensor("uint8", zeros, [n, bytesOf(blocks)]))] : []),
      ...(hasBias ? [initializer(`c${at}`, new Tensor("float32", bias, [n]))] : []),
    );
    const operands = ["a", `b${at}`, `s${at}`, hasZeros ? `z${at}` : "", "", hasBias ? `c${at}` : ""];
    const attrs: Record<string, AttributeInput> = { K: k, N: n, bits, block_size: blockSize, accuracy_level: level };
    return node("MatMulNBits", operands, [`y${at}`], attrs, { domain });
  });
  const model = buildModel({
    opset: { "": 21, [domain]: 1 },
    inputs: [value("a", "float32", ["rows", k])],
    outputs: columns.map((n, at) => value(`y${at}`, "float32", ["rows", n])),
    initializers,
    nodes,
  });
  return {
    text: text({ number, m, k, bits, blockSize, columns, hasZeros, hasBias, level }),
    m,
    k,
    bits,
    columns,
    model: writeModel(model),
    a: new Tensor("float32", a, [m, k]),
    exact,
    bound,
  };
}

/** The results, and the operators that the session has. */
async function run({ model, a }: Products, options: SessionOptions): Promise<[Float32Array[], string[]]> {
  const session = await InferenceSession.create(model, options);
  const results = await session.run({ a });
  const operators = session.explain({ json: true }).steps.map(({ op }) => op);
  await session.release();
  return [session.outputNames.map((name) => results[name].data as Float32Array), operators];
}

test(`${rounds} times products of one value from seed ${seed}`, async () => {
  for (let round = 0; round < rounds; round++) {
    const products = productsOf(seed + round);
    const options = {
      threads: 1 + (round % 3),
      batchInvariant: round % 5 === 4,
      wasm: { relaxedSimd: round % 4 !== 3 },
    };
    const [shared, operators] = await run(products, options);
    const [apart] = await run(products, { ...options, graphOptimizationLevel: "disabled" });
    expect(operators, products.text).toEqual(["SharedProducts"]);
    expect(shared, products.text).toEqual(apart);
    shared.forEach((found, at) =>
      found.forEach((number, index) => {
        const off = Math.abs(number - products.exact[at][index]);
        if (!(off <= products.bound[at][index])) expect.fail(`${products.text}: y${at}[${index}] is off by ${off}`);
      }),
    );
  }
});

test.runIf(installed)("as onnxruntime computes them", async () => {
  for (let round = 0; round < rounds / 4; round++) {
    const products = productsOf(seed + round);
    if (products.bits === 2) continue; // it has no kernel for those
    const peer = await openPeer(products.model);
    const theirs = await peer.run({ a: handOver(products.a) });
    const [ours] = await run(products, { threads: 2 });
    ours.forEach((found, at) =>
      found.forEach((number, index) => {
        const off = Math.abs(number - (theirs[`y${at}`].data as Float32Array)[index]);
        // Both round.
        if (!(off <= 2 * products.bound[at][index])) expect.fail(`${products.text}: y${at}[${index}] is off by ${off}`);
      }),
    );
  }
});

test("more than three products, and products of several forms, stay apart", async () => {
  const [, many] = await run(productsOf(seed, { count: 4 }), { threads: 1 });
  expect(many).toEqual(Array.from({ length: 4 }, () => "MatMulNBits"));
  const product = (name: string, level: number): ReturnType<typeof node> =>
    node(
      "MatMulNBits",
      ["a", "b", "s"],
      [name],
      { K: 32, N: 1, bits: 8, block_size: 32, accuracy_level: level },
      { domain },
    );
  const model = buildModel({
    opset: { "": 21, [domain]: 1 },
    inputs: [value("a", "float32", [1, 32])],
    outputs: [value("y0", "float32", [1, 1]), value("y1", "float32", [1, 1])],
    initializers: [
      initializer("b", new Tensor("uint8", new Uint8Array(32).fill(129), [1, 1, 32])),
      initializer("s", new Tensor("float32", [1], [1, 1])),
    ],
    nodes: [product("y0", 0), product("y1", 4)],
  });
  const session = await InferenceSession.create(writeModel(model), { threads: 1 });
  const { y0, y1 } = await session.run({ a: new Tensor("float32", new Float32Array(32).fill(1), [1, 32]) });
  expect([y0.data, y1.data]).toEqual([Float32Array.of(32), Float32Array.of(32)]);
  expect(session.explain({ json: true }).steps.map(({ op }) => op)).toEqual(["MatMulNBits", "MatMulNBits"]);
  await session.release();
});

const end = new MemoryEnd();
afterAll(() => end.restore());

test("memory that ends where an operand, a result, a job or what lies in between ends", async () => {
  await prepare({ ...atTheEnd, threads: 1 });
  let placed = 0;
  for (let round = 0; round < 12; round++) {
    const products = productsOf(seed + 1000 + round, { m: [1, 2, 13][round % 3] });
    end.place(() => false);
    const [expected] = await run(products, { ...atTheEnd, threads: 1 });
    for (let number = 0, taken = 1; number < taken; number++) {
      end.place((taking) => taking.number === number);
      const [found] = await run(products, { ...atTheEnd, threads: 1 });
      expect(found, `${products.text}, buffer ${number}`).toEqual(expected);
      taken = end.taken;
      placed += end.placed;
    }
  }
  expect(placed).toBeGreaterThan(50);
});
