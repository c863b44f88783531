// `insitu inspect`: what it prints, writes and refuses.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { helpOf, readArguments } from "../../packages/cli/command.js";
import { inspect } from "../../packages/cli/inspect.js";
import { openForInspection } from "../../packages/cli/inspect-model.js";
import { tools } from "../../tools/cli/all-tools.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import type { Model, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import type { ExplainJson } from "../../packages/explain/json.js";
import { append, around, cache, concat } from "./graphs.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-inspect-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const fileOf = (model: Model): string => {
  const path = join(folder, `${files++}.onnx`);
  writeFileSync(path, writeModel(model));
  return path;
};

/** Runs the command as the command line does; what it prints. */
async function run(...argv: string[]): Promise<string> {
  const lines: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  try {
    expect(await inspect.run(readArguments(inspect, argv), async () => tools)).toBe(0);
  } finally {
    log.mockRestore();
  }
  return lines.join("\n");
}

const json = async (...argv: string[]): Promise<ExplainJson> => JSON.parse(await run(...argv, "--json")) as ExplainJson;

test("JSON tells what session.explain tells", async () => {
  const path = fileOf(generatedDecoder());
  const session = await InferenceSession.create(path, { backend: "reference" });
  const told = await json(path);
  const { arenaBytes: _, ...explained } = JSON.parse(JSON.stringify(session.explain({ json: true }))) as ExplainJson;
  expect(told).toMatchObject(explained);
  expect(told.caches).toHaveLength(4);
  expect(told).toMatchObject({ opsets: { "ai.onnx": 24 }, producer: "insitu" });
});

test("bytes as formulas, and as numbers for given sizes", async () => {
  const path = fileOf(generatedDecoder());
  const rowBytes = 2 * 2 * smallSizes.keyValueHeads * smallSizes.headSize * 4;
  const open = await json(path);
  expect(open.stateBytes).toBeUndefined();
  expect(open.formulas).toEqual({
    stateBytes: `${rowBytes} bytes × batch × capacity`,
    copiedBytesPerToken: `${rowBytes} bytes × batch × capacity`,
    movedBytesPerToken: "0 bytes",
    writtenBytesPerToken: `${rowBytes} bytes × batch`,
  });
  const known = await json(path, "--dims", "batch=2,capacity=4096");
  expect(known.stateBytes).toBe(rowBytes * 2 * 4096);
  expect(known.copiedBytesPerToken).toBe(rowBytes * 2 * 4096);
  expect(known.movedBytesPerToken).toBe(0);
  expect(known.writtenBytesPerToken).toBe(rowBytes * 2);
  expect(known.arenaBytes).toBeUndefined();
  expect((await json(path, "--dims", "batch=2,capacity=4096,sequence=1")).arenaBytes).toBeGreaterThan(0);
  const session = await InferenceSession.create(path, { backend: "reference" });
  expect(session.createState({ dims: { batch: 2, capacity: 4096 } }).byteLength).toBe(known.stateBytes);
});

test("--pairs names the output that an input becomes, where several could be it", async () => {
  const nodes = [append("past", "present", "first"), append("present", "later", "second")];
  const path = fileOf(around(nodes, { outputs: [cache("present"), cache("later")] }));
  expect((await json(path)).states).toMatchObject([{ input: "past", output: "present", others: ["later"] }]);
  expect(await run(path)).toContain('past  becomes present; could become later: pairs: { "past": "later" } says so');
  expect((await json(path, "--pairs", "past=later")).states).toMatchObject([
    { input: "past", output: "later", others: ["present"] },
  ]);
  await expect(run(path, "--pairs", "past")).rejects.toThrow('--pairs "past": expected input=output');
  await expect(run(path, "--pairs", "past=nothing")).rejects.toThrow('"nothing", named for "past", is no output');
});

test("a cache that grows: rows so far are moved, the reserve is held", async () => {
  const { formulas } = await json(fileOf(concat));
  expect(formulas.stateBytes).toBe("32 bytes × batch × capacity");
  expect(formulas.copiedBytesPerToken).toBe("32 bytes × batch × length");
  expect(formulas.movedBytesPerToken).toBe("32 bytes × batch × length");
  const known = await json(fileOf(concat), "--dims", "batch=1,capacity=10");
  expect([known.stateBytes, known.movedBytesPerToken, known.writtenBytesPerToken]).toEqual([320, 320, 32]);
});

test("the text tells each cache, bytes and operators, and steps only when asked", async () => {
  const path = fileOf(
    around(
      [append("past", "present", "append"), node("Sub", ["present", "past"], ["result"], {}, { name: "differ" })],
      {
        outputs: [cache("present"), cache("result")],
      },
    ),
  );
  const text = await run(path);
  expect(text).toContain(
    'past  append  TensorScatter  copied: Sub "differ" reads the old value and needs this node\'s result, so it cannot come first',
  );
  expect(text).toMatch(/a runtime that copies its caches moves +16 bytes × batch × capacity/);
  expect(text).toContain("  Sub 1, TensorScatter 1");
  expect(text).not.toContain("\nsteps\n");
  expect(await run(path, "--steps")).toMatch(
    /\nsteps\n +append +TensorScatter +float32\[batch,capacity,4\] +copies past: Sub/,
  );
});

test("many layers are told as one line", async () => {
  const path = fileOf(generatedDecoder({ ...smallSizes, layers: 12 }));
  const text = await run(path);
  expect(text).toContain("past.0…11.key (12)");
  expect(text).toContain("24 cache updates, all in place");
  expect(text.split("\n").length).toBeLessThan(40);
  expect((await json(path)).caches).toHaveLength(24);
});

test("--svg draws the caches", async () => {
  const target = join(folder, "caches.svg");
  const path = fileOf(generatedDecoder({ ...smallSizes, layers: 12 }));
  expect(await run(path, "--svg", target)).toContain(target);
  const svg = readFileSync(target, "utf8");
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  expect(svg).toContain("past.0…11.value  float32[batch,capacity,16]  × 12 alike");
  expect(svg).toContain("24 of 24 cache updates in place");
  await expect(run(path, "--svg", join(folder, "nowhere", "x.svg"))).rejects.toThrow(/--svg .* cannot be written/);
});

test("a model without caches says so", async () => {
  const path = fileOf(
    buildModel({
      opset: 24,
      inputs: [value("x", "float32", ["n"])],
      outputs: [value("y")],
      nodes: [node("Neg", ["x"], ["y"])],
    }),
  );
  expect(await run(path)).toContain("1 step, no caches");
  expect((await json(path)).caches).toEqual([]);
});

test("sizes are checked", async () => {
  const path = fileOf(generatedDecoder());
  await expect(run(path, "--dims", "width=3")).rejects.toThrow(
    "--dims width: no input has a dimension of that name; known are batch, capacity, sequence",
  );
  await expect(run(path, "--dims", "batch=many")).rejects.toThrow('a size is a whole number, got "many"');
  await expect(run(path, "--dims", "batch")).rejects.toThrow("expected name=N");
});

test("operators that insitu does not have are all named", async () => {
  const unknown = ["Frobnicate", "Frobnicate", "Unheard"].map((op, at) =>
    node(op, ["x"], [`y${at}`], {}, { name: `n${at}` }),
  );
  const path = fileOf(
    buildModel({ opset: 24, inputs: [value("x", "float32", [1])], outputs: [value("y0")], nodes: unknown }),
  );
  await expect(run(path)).rejects.toThrow(
    /^the model calls 2 operators that are not supported: Frobnicate \(2 nodes, the first is "n0"\), Unheard \(node "n2"\); the first is Frobnicate "n0": operator Frobnicate/,
  );
});

test("options that it does not have are refused, and --help lists those it has", () => {
  expect(() => readArguments(inspect, ["m.onnx", "--colour"])).toThrow("insitu inspect --help");
  for (const option of ["--json", "--steps", "--svg <file>", "--dims <name=N,…>"])
    expect(helpOf(inspect)).toContain(option);
});

/** A tensor whose bytes lie in weights.bin. */
const external = (name: string, type: ModelTensor["type"], dims: readonly number[], offset: number): ModelTensor => ({
  name,
  type,
  dims,
  external: { location: "weights.bin", offset },
  metadata: new Map(),
  docString: "",
});

test("large weights in another file are counted, not read; small ones and shapes are read", async () => {
  const large = external("large", "float32", [512, 512], 16);
  const model = around(
    [
      node("Reshape", ["wide", "shape"], ["tall"], {}, { name: "reshape" }),
      node("MatMul", ["tall", "large"], ["product"], {}, { name: "multiply" }),
      append("past", "present", "append"),
    ],
    {
      inputs: [value("wide", "float32", [512])],
      outputs: [cache("present"), value("product", "float32")],
      initializers: [external("shape", "int64", [2], 0), large],
    },
  );
  const path = fileOf(model);
  await expect(run(path)).rejects.toThrow('tensor "shape": external data "weights.bin" cannot be opened');
  // The shape is there, the large weight's bytes are not: they are not asked for.
  writeFileSync(join(folder, "weights.bin"), new Uint8Array(BigInt64Array.of(1n, 512n).buffer));
  const told = await json(path);
  expect(told.weightBytes).toBe(512 * 512 * 4 + 16);
  expect(told.outputs.find(({ name }) => name === "product")?.shape).toEqual([1, 512]);
  expect(told.caches).toMatchObject([{ node: "append", inPlace: true }]);
  const opened = await openForInspection(path);
  expect((opened.graph.initializers[1].data as Float32Array).length).toBe(512 * 512);
});

test("model, graph and program print themselves", async () => {
  const path = fileOf(generatedDecoder());
  const lines = async (...argv: string[]): Promise<string[]> => (await run(path, "--print", ...argv)).split("\n");
  const model = await lines("model");
  expect(model[0]).toContain(path);
  expect(model.filter((line) => line.includes("= Attention("))).toHaveLength(2);
  const graph = await lines("graph");
  expect(graph[0]).toMatch(/^graph generated_decoder\(input_ids: int64\[batch,sequence\], /);
  expect(graph).toContain(
    "  present.0.key: float32[batch,capacity,16] = TensorScatter-24(past.0.key, layer.0.k.rotated, write_indices) {axis=1}",
  );
  const program = await lines("program", "--dims", "batch=1,capacity=8,sequence=1");
  expect(program[0]).toMatch(/^program generated_decoder\(.*\): arena of \d/);
  expect(program).toContain(
    "  present.0.key: float32[1,8,16] writes into past.0.key = TensorScatter-24(past.0.key, layer.0.k.rotated, write_indices) {axis=1}",
  );
  expect(program.at(-1)).toMatch(/^ {2}return logits, /);
  // As many steps as the plan for these sizes runs.
  const { steps } = await json(path, "--dims", "batch=1,capacity=8,sequence=1");
  const running = steps.filter(({ runs }) => runs !== "beforehand");
  expect(program.filter((line) => / = \w+-\d+\(/.test(line))).toHaveLength(running.length);
});

test("--print refuses what it cannot print, and says what is missing", async () => {
  const path = fileOf(generatedDecoder());
  await expect(run(path, "--print", "program", "--dims", "batch=1")).rejects.toThrow(
    "--print program needs every size of the inputs: give --dims sequence=…,capacity=…",
  );
  await expect(run(path, "--print", "plan")).rejects.toThrow('--print must be model, graph or program, got "plan"');
});

test("names that would act on a terminal do not, whatever is printed", async () => {
  const name = "y\u001b[2J\nz";
  const model = buildModel({
    opset: 24,
    inputs: [value("x", "float32", [2])],
    outputs: [value(name, "float32", [2])],
    nodes: [node("Relu", ["x"], [name])],
  });
  for (const noun of ["model", "graph", "program"]) {
    const text = await run(fileOf(model), "--print", noun);
    expect(text).toContain("y·[2J·z");
    expect(text).not.toMatch(/[^\n\P{Cc}]/u);
  }
});
