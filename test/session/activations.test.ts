// Option activations: how products with weights of few bits take their activations, beside a loop that rounds and one that does not, beside onnxruntime
// at accuracy_level 4, at every kind of row count, and what it does to a model's loss.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logSumExp } from "../../packages/choice/log-probability.js";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { attributes, buildModel, initializer, node, value } from "../../src/onnx/build.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { handOver, installed, openPeer } from "../rewrite/peer.js";
import { soak } from "../support/soak.js";

const [k, block] = [96, 32];
const domain = "com.microsoft";
const rowCounts = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 33, 100];

/** Rows whose rounding to bytes leaves no doubt: in steps of a power of two a block, a quarter of a step from whole numbers of them. */
function steppedRows(m: number): { readonly given: Float32Array; readonly rounded: Float32Array } {
  const random = seededRandom(m);
  const [given, rounded] = [new Float32Array(m * k), new Float32Array(m * k)];
  for (let first = 0; first < m * k; first += block) {
    const step = 2 ** (Math.floor(random() * 6) - 9);
    const largest = Math.floor(random() * block);
    for (let at = 0; at < block; at++) {
      const whole = at === largest ? 127 : Math.floor(random() * 253) - 126;
      given[first + at] = (at === largest ? whole : whole + (random() < 0.5 ? 0.25 : -0.25)) * step;
      rounded[first + at] = whole * step;
    }
  }
  return { given, rounded };
}

/** Several products of one value, which become one node: weights of `bits`, at a level or none. */
function productsOf(bits: number, level: number | undefined) {
  const random = seededRandom(bits);
  const blocks = k / block;
  const weights = [5, 8].map((n, index) => ({
    n,
    name: `y${index}`,
    levels: Uint8Array.from({ length: n * k }, () => Math.floor(random() * 2 ** bits)),
    scales: Float32Array.from({ length: n * blocks }, () => (random() + 0.5) / 2 ** bits),
  }));
  const pack = (levels: Uint8Array): Uint8Array => {
    const packed = new Uint8Array((levels.length * bits) / 8);
    levels.forEach((each, at) => void (packed[(at * bits) >> 3] |= each << ((at * bits) & 7)));
    return packed;
  };
  const bytes = writeModel(
    buildModel({
      opset: { "": 21, [domain]: 1 },
      inputs: [value("x", "float32", ["rows", k])],
      outputs: weights.map(({ name, n }) => value(name, "float32", ["rows", n])),
      initializers: weights.flatMap(({ name, n, levels, scales }) => [
        initializer(`b${name}`, "uint8", pack(levels), [n, blocks, (block * bits) / 8]),
        initializer(`s${name}`, "float32", scales, [n, blocks]),
      ]),
      nodes: weights.map(({ name, n }) => {
        const attrs = { K: k, N: n, bits, block_size: block, ...(level !== undefined && { accuracy_level: level }) };
        return node("MatMulNBits", ["x", `b${name}`, `s${name}`], [name], attrs, { domain });
      }),
    }),
  );
  /** rows · weightsᵀ, as a loop has it in float64. */
  const product = (rows: Float32Array): number[][] =>
    weights.map(({ n, levels, scales }) =>
      Array.from({ length: (rows.length / k) * n }, (_, index) => {
        const [row, column] = [Math.floor(index / n), index % n];
        let sum = 0;
        for (let at = 0; at < k; at++) {
          const weight = (levels[column * k + at] - 2 ** (bits - 1)) * scales[column * blocks + Math.floor(at / block)];
          sum += rows[row * k + at] * weight;
        }
        return sum;
      }),
    );
  return { bytes, product };
}

type Asked = NonNullable<SessionOptions["activations"]>;

async function runWith(bytes: Uint8Array, options: SessionOptions, rows: Float32Array): Promise<Float32Array[]> {
  const session = await InferenceSession.create(bytes, options);
  const results = await session.run({ x: new Tensor("float32", rows, [rows.length / k, k]) });
  await session.release();
  return ["y0", "y1"].map((name) => (results[name].data as Float32Array).slice());
}

const apart = (found: readonly Float32Array[], wanted: readonly (readonly number[])[]): number =>
  Math.max(...found.flatMap((each, at) => Array.from(each, (x, index) => Math.abs(x - wanted[at][index]))));

/** Level of the file, what is asked for, and whether rows are rounded to bytes then. */
const cases: readonly (readonly [level: number | undefined, asked: Asked | undefined, rounds: boolean])[] = [
  [undefined, undefined, false],
  [0, "file", false],
  [4, undefined, true],
  [4, "file", true],
  [undefined, "int8", true],
  [0, "int8", true],
  [1, "int8", false],
  [2, "int8", false],
  [4, "int8", true],
  [0, "float", false],
  [4, "float", false],
];

test.each(cases)("accuracy_level %s, activations %s: rounded to bytes: %s", async (level, activations, rounds) => {
  const { bytes, product } = productsOf(4, level);
  for (const graphOptimizationLevel of ["all", "disabled"] as const)
    for (const m of rowCounts) {
      const { given, rounded } = steppedRows(m);
      const threads = m % 2 === 0 ? 2 : 1;
      const options = { backend: "wasm", threads, activations, graphOptimizationLevel } as const;
      const found = await runWith(bytes, options, given);
      const [whole, plain] = [product(rounded), product(given)];
      // At level 2 activations have 16 bits: a step is a 32767th of a row's largest.
      const tolerance = level === 2 ? 1e-3 : 1e-4;
      expect(apart(found, rounds ? whole : plain), `${m} rows`).toBeLessThan(tolerance);
      expect(apart(found, rounds ? plain : whole), `${m} rows`).toBeGreaterThan(1e-2);
    }
});

test("weights of 2 and 8 bits have activations of 16 bits at least", async () => {
  for (const bits of [2, 8]) {
    const { bytes, product } = productsOf(bits, undefined);
    for (const m of rowCounts) {
      const { given } = steppedRows(m);
      expect(apart(await runWith(bytes, { activations: "int8" }, given), product(given))).toBeLessThan(2e-3);
    }
  }
});

test.runIf(installed)("onnxruntime rounds alike at accuracy_level 4", async () => {
  const peer = await openPeer(productsOf(4, 4).bytes);
  for (const m of rowCounts) {
    const { given } = steppedRows(m);
    const theirs = await peer.run({ x: handOver(new Tensor("float32", given, [m, k])) });
    const found = await runWith(productsOf(4, 0).bytes, { activations: "int8" }, given);
    const wanted = ["y0", "y1"].map((name) => Array.from(theirs[name].data as Float32Array));
    expect(apart(found, wanted), `${m} rows`).toBeLessThan(1e-4);
  }
  await peer.release();
});

test("what is no way to take activations is refused", async () => {
  const { bytes } = productsOf(4, 0);
  await expect(InferenceSession.create(bytes, { activations: "int4" as "int8" })).rejects.toThrow(
    /^option activations must be "file", "float" or "int8", got "int4"$/,
  );
});

const folder = mkdtempSync(join(tmpdir(), "insitu-activations-"));
beforeAll(() => {
  const script = fileURLToPath(new URL("../../training/hub-folder.mjs", import.meta.url));
  execFileSync(process.execPath, [script, folder, "--variants", "q4"]);
  const file = join(folder, "onnx/model_q4.onnx");
  const model = readModel(new Uint8Array(readFileSync(file)));
  const nodes = model.graph.nodes.map((each) =>
    each.opType === "MatMulNBits"
      ? { ...each, attributes: new Map([...each.attributes, ...attributes({ accuracy_level: 0 })]) }
      : each,
  );
  writeFileSync(file, writeModel({ ...model, graph: { ...model.graph, nodes } }));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The mean of −log p over held-out windows, `chunk` tokens a run. */
async function heldOutLoss(chunk: number, windows: number, activations?: Asked): Promise<number> {
  const [length, vocabulary] = [512, 4096];
  const lm = await CausalLM.load(folder, { cache: "paged", context: length, activations });
  const path = fileURLToPath(new URL("../cache/held-out.txt.br", import.meta.url));
  const text = brotliDecompressSync(readFileSync(path)).toString("utf8");
  const tokens = [...lm.tokenizer.encode(text.replaceAll(/\n+/g, "\n"))];
  let [sum, count] = [0, 0];
  for (let window = 0; window < windows; window++) {
    const sequence = lm.pages!.add();
    const part = tokens.slice(window * length, (window + 1) * length + 1);
    for (let at = 0; at < part.length - 1; at += chunk) {
      const [{ rows }] = await lm.pages!.step([{ sequence, tokens: part.slice(at, Math.min(at + chunk, length)) }]);
      for (let row = 0; row * vocabulary < rows.length; row++, count++) {
        const logits = rows.subarray(row * vocabulary, (row + 1) * vocabulary);
        sum += logSumExp(logits) - logits[part[at + row + 1]];
      }
    }
    sequence.release();
  }
  await lm.release();
  return sum / count;
}

test("CausalLM rounds where the file leaves it open, which costs less than a thousandth of the loss", async () => {
  for (const [chunk, windows] of soak
    ? ([
        [64, 100],
        [1, 8],
        [5, 8],
      ] as const)
    : ([[64, 1]] as const)) {
    const floats = await heldOutLoss(chunk, windows, "float");
    const rounded = await heldOutLoss(chunk, windows, "int8");
    console.log(`runs of ${chunk}: held-out loss ${rounded.toFixed(5)}, with floats ${floats.toFixed(5)}`);
    expect(await heldOutLoss(chunk, windows)).toBe(rounded);
    expect(await heldOutLoss(chunk, windows, "file")).toBe(floats);
    expect(rounded).not.toBe(floats);
    expect(Math.abs(rounded / floats - 1)).toBeLessThan(1e-3);
  }
});
