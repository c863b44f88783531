// Weights that lie as CUDA's kernels read them: the oracle packs as onnxruntime's tools do, step by step, and its bytes are held against theirs.
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { InferenceSession, Tensor } from "../../src/index.node.js";
import { buildModel, graph as makeGraph, initializer, node, value } from "../../src/onnx/build.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import type { Model, ModelAttribute } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { backends, type TestedBackend } from "../support/backends.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-packed-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Levels of bytes, lower halves first. */
const levelsOf = (bytes: Uint8Array, bits: number): number[] =>
  bits === 8 ? [...bytes] : [...bytes].flatMap((byte) => [byte & 15, byte >> 4]);
const bytesOf = (levels: readonly number[], bits: number): Uint8Array =>
  Uint8Array.from(
    bits === 8 ? levels : Array.from({ length: levels.length / 2 }, (_, i) => levels[2 * i] | (levels[2 * i + 1] << 4)),
  );

/** What the tools make of weights [n, k]: rows permuted, columns of `arch` 80 in turns over tiles of 64, elements of each 32 bits in another order. */
function pack(plain: Uint8Array, { n, k, bits, arch }: { n: number; k: number; bits: 4 | 8; arch: 80 | 90 }) {
  const levels = levelsOf(plain, bits);
  const rows =
    bits === 8
      ? [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]
      : [0, 2, 4, 6].flatMap((more) => [0, 1, 8, 9, 16, 17, 24, 25].map((row) => row + more));
  const permuted = levels.map((_, at) => {
    const [column, row] = [Math.floor(at / k), at % k];
    return levels[column * k + row - (row % rows.length) + rows[row % rows.length]];
  });
  const columns = arch === 90 ? 1 : 16 / bits;
  const turned: number[] = [];
  for (let group = 0; group < n; group += columns)
    for (let tile = 0; tile < k; tile += 64)
      for (let column = group; column < group + columns; column++)
        turned.push(...permuted.slice(column * k + tile, column * k + tile + 64));
  const order = bits === 8 ? [0, 2, 1, 3] : [0, 2, 4, 6, 1, 3, 5, 7];
  return bytesOf(
    turned.map((_, at) => turned[at - (at % order.length) + order[at % order.length]]),
    bits,
  );
}

const filled = (count: number): Uint8Array => Uint8Array.from({ length: count }, (_, i) => i * 7919 + (i >> 5) * 31);

test.each([
  [4, 80, "1916738c4b500e646d41d6e1ace22c313300d7ac16d1a4cb9044fdec33f758c9"],
  [4, 90, "e81ea2c2cc1c8780f482a842da996c83257effffd8574f8fb77d7641dc21d350"],
  [8, 80, "8475aabf9a418f75adcd3c7c986daff6f82a91038ff5a0622446bbe817f9f8f3"],
  [8, 90, "50edc6d934636b45cba3f809ebd662dc8e4326db1f33183b7d30407b2303d16e"],
] as const)("the oracle packs %i bits for architecture %i as the tools do", (bits, arch, told) => {
  const packed = pack(filled((64 * 192 * bits) / 8), { n: 64, k: 192, bits, arch });
  expect(createHash("sha256").update(packed).digest("hex")).toBe(told);
});

const microsoft = { domain: "com.microsoft" } as const;
const floats = (count: number, step: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => (((i * step) % 101) - 50) / 400);

/** A product [n, k] in blocks of 64, plain or packed for an architecture. */
function product(bits: 4 | 8, { n, k, arch }: { n: number; k: number; arch?: 80 | 90 | undefined }): Model {
  const plain = filled((n * k * bits) / 8);
  const weights = arch === undefined ? plain : pack(plain, { n, k, bits, arch });
  return buildModel({
    opset: { "": 21, "com.microsoft": 1 },
    inputs: [value("x", "float32", ["rows", k])],
    outputs: [value("y", "float32", ["rows", n])],
    initializers: [
      initializer("w", new Tensor("uint8", weights, [n, k / 64, 8 * bits])),
      initializer("s", new Tensor("float32", floats((n * k) / 64, 37), [n, k / 64])),
    ],
    nodes: [
      node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        {
          K: k,
          N: n,
          bits,
          block_size: 64,
          ...(arch === undefined ? {} : { weight_prepacked: arch === 80 ? 1 : 2 }),
        },
        microsoft,
      ),
    ],
  });
}

/** How a file of experts says that they are packed. */
type Told = "by its attribute" | "by its shape";

/** Four experts with an inner size of 128, two a token, plain or packed. */
function experts(bits: 4 | 8, told: Told | undefined, hidden = 192): Model {
  const [count, inner] = [4, 128];
  const weights = (name: string, n: number, k: number) => {
    const size = (n * k * bits) / 8;
    const all = filled(count * size);
    const parts = Array.from({ length: count }, (_, at) => all.slice(at * size, (at + 1) * size));
    const bytes = told === undefined ? parts : parts.map((part) => pack(part, { n, k, bits, arch: 80 }));
    const dims = told === "by its shape" ? [count, k, (n * bits) / 8] : [count, n, (k * bits) / 8];
    return [
      initializer(name, new Tensor("uint8", Uint8Array.from(bytes.flatMap((part) => [...part])), dims)),
      initializer(`${name}.scales`, new Tensor("float32", floats((count * n * k) / 64, 29), [count, n, k / 64])),
    ];
  };
  return buildModel({
    opset: { "": 21, "com.microsoft": 1 },
    inputs: [value("x", "float32", ["rows", hidden]), value("scores", "float32", ["rows", count])],
    outputs: [value("y", "float32", ["rows", hidden])],
    initializers: [...weights("up", 2 * inner, hidden), ...weights("down", hidden, inner)],
    nodes: [
      node(
        "QMoE",
        ["x", "scores", "up", "up.scales", "", "down", "down.scales"],
        ["y"],
        {
          k: 2,
          activation_type: "swiglu",
          swiglu_fusion: 1,
          expert_weight_bits: bits,
          block_size: 64,
          ...(told === "by its attribute" ? { weights_prepacked: 1 } : {}),
        },
        microsoft,
      ),
    ],
  });
}

const feedsOf = (width: number, scores: boolean) => ({
  x: new Tensor("float32", floats(3 * width, 17), [3, width]),
  ...(scores ? { scores: new Tensor("float32", floats(12, 23), [3, 4]) } : {}),
});

async function answer(
  source: Uint8Array | string,
  backend: TestedBackend["name"],
  feeds: Record<string, Tensor>,
): Promise<number[]> {
  const session = await InferenceSession.create(source, { backend, threads: 1 });
  const { y } = await session.run(feeds);
  const data = await y.getData();
  await session.release();
  return [...(data as Float32Array)];
}

let files = 0;
/** The model with its weights in a file of their own. */
function outside(model: Model): string {
  const path = join(folder, `model-${files++}.onnx`);
  const { model: moved, pieces } = moveToExternalData(model, { location: `${files}.data` });
  writeFileSync(join(folder, `${files}.data`), Buffer.concat(pieces));
  writeFileSync(path, writeModel(moved));
  return path;
}

describe.each(backends.map(({ name }) => name))("%s", (backend) => {
  test.each([4, 8] as const)("products of %i bits answer as the plain ones, bit for bit", async (bits) => {
    const size = { n: 64, k: 512 };
    const feeds = feedsOf(size.k, false);
    const plain = await answer(writeModel(product(bits, size)), backend, feeds);
    for (const arch of [80, 90] as const) {
      const packed = product(bits, { ...size, arch });
      expect(await answer(writeModel(packed), backend, feeds)).toEqual(plain);
      expect(await answer(outside(packed), backend, feeds)).toEqual(plain);
    }
  });

  test.each([4, 8] as const)("experts of %i bits answer as the plain ones, bit for bit", async (bits) => {
    const feeds = feedsOf(192, true);
    const plain = await answer(writeModel(experts(bits, undefined)), backend, feeds);
    for (const told of ["by its attribute", "by its shape"] as const) {
      const path = outside(experts(bits, told));
      // Sessions of one file have their weights in common, unless they are put in order.
      expect(await answer(path, backend, feeds)).toEqual(plain);
      expect(await answer(path, backend, feeds)).toEqual(plain);
      expect(await answer(writeModel(experts(bits, told)), backend, feeds)).toEqual(plain);
    }
  });
});

test.each(backends.map(({ name }) => name))(
  "what the caller gives as bytes stays what it is, on %s",
  async (backend) => {
    const size = { n: 64, k: 512 };
    const feeds = feedsOf(size.k, false);
    const plain = await answer(writeModel(product(4, size)), backend, feeds);
    const packed = product(4, { ...size, arch: 80 });
    const bytes = writeModel(packed);
    const { model: moved, pieces } = moveToExternalData(packed, { location: "weights" });
    // A second name for the same bytes.
    const [weight] = moved.graph.initializers;
    const [call] = moved.graph.nodes;
    const tied = writeModel({
      ...moved,
      graph: {
        ...moved.graph,
        initializers: [...moved.graph.initializers, { ...weight, name: "again" }],
        nodes: [
          { ...call, outputs: ["first"] },
          { ...call, inputs: ["x", "again", "s"], outputs: ["second"] },
          node("Max", ["first", "second"], ["y"]),
        ],
      },
    });
    const data = new Uint8Array(Buffer.concat(pieces));
    const before = [bytes.slice(), data.slice()];
    for (let at = 0; at < 2; at++) {
      expect(await answer(bytes, backend, feeds)).toEqual(plain);
      const options = { backend, threads: 1, externalData: [{ path: "weights", data }] };
      const session = await InferenceSession.create(tied, options);
      expect([...((await (await session.run(feeds)).y.getData()) as Float32Array)]).toEqual(plain);
      await session.release();
    }
    expect([bytes, data]).toEqual(before);
  },
);

test("two sessions of one file at once put its weights in order once each", async () => {
  const path = outside(experts(4, "by its shape"));
  const sessions = await Promise.all([1, 2].map(() => InferenceSession.create(path, { backend: "wasm", threads: 1 })));
  const [one, two] = await Promise.all(sessions.map((session) => session.run(feedsOf(192, true))));
  expect([...(two.y.data as Float32Array)]).toEqual([...(one.y.data as Float32Array)]);
  expect([...(one.y.data as Float32Array)]).toEqual(
    await answer(writeModel(experts(4, undefined)), "wasm", feedsOf(192, true)),
  );
  await Promise.all(sessions.map((session) => session.release()));
});

/** The model with other attributes in its only node. */
const withAttributes = ({ graph, ...rest }: Model, changes: Readonly<Record<string, number>>): Model => {
  const changed = Object.entries(changes).map(([name, number]): [string, ModelAttribute] => [
    name,
    { name, docString: "", kind: "int", value: BigInt(number) },
  ]);
  const [call] = graph.nodes;
  return { ...rest, graph: { ...graph, nodes: [{ ...call, attributes: new Map([...call.attributes, ...changed]) }] } };
};

test.each<Readonly<Record<string, number>>>([
  { N: 128 },
  { N: 32 },
  { N: 2 ** 20 },
  { N: 0 },
  { N: -4 },
  { K: 1024 },
  { K: 0 },
  { block_size: 1024 },
])("sizes that the weights do not have are refused: %j", async (sizes) => {
  const model = withAttributes(product(4, { n: 64, k: 512, arch: 80 }), sizes);
  for (const source of [writeModel(model), outside(model)])
    await expect(InferenceSession.create(source)).rejects.toThrow(/weight_prepacked must be 0|must be positive/);
});

test("weights that a subgraph reads, or the graph gives out, are refused", async () => {
  const { graph, ...rest } = product(4, { n: 64, k: 512, arch: 80 });
  const body = makeGraph({ nodes: [node("Identity", ["w"], ["z"])], outputs: [value("z", "uint8")] });
  const choice = node("If", ["c"], ["z"], { then_branch: body, else_branch: body });
  const inside = {
    ...graph,
    nodes: [...graph.nodes, choice],
    inputs: [...graph.inputs, value("c", "bool", [])],
    outputs: [...graph.outputs, value("z", "uint8")],
  };
  await expect(InferenceSession.create(writeModel({ ...rest, graph: inside }))).rejects.toThrow(/If.*reads "w"/);
  const given = { ...graph, outputs: [...graph.outputs, value("w", "uint8")] };
  await expect(InferenceSession.create(writeModel({ ...rest, graph: given }))).rejects.toThrow(/gives out "w"/);
});

test("weights of no whole tile, and those that something else reads too, are refused", async () => {
  const { graph, ...rest } = product(4, { n: 64, k: 512, arch: 80 });
  const also = node("Identity", ["w"], ["z"]);
  const shared = { ...rest, graph: { ...graph, nodes: [...graph.nodes, also] } };
  await expect(InferenceSession.create(writeModel(shared))).rejects.toThrow(
    /Identity.*reads "w", which lies as one device's/,
  );
  const refused = withAttributes(product(4, { n: 2, k: 64 }), { weight_prepacked: 1 });
  await expect(InferenceSession.create(writeModel(refused))).rejects.toThrow(/weight_prepacked must be 0/);
});
