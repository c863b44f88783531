// `insitu rewrite`, the session's option and the library's function: what they write, print and refuse.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { readArguments } from "../../packages/cli/command.js";
import { inspect } from "../../packages/cli/inspect.js";
import { rewrite } from "../../tools/cli/rewrite.js";
import { InferenceSession, rewrite as rewriteBytes } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { checkRewrite } from "./check.js";
import { bytesOf } from "./exports.js";
import { styledDecoder } from "./styles.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-rewrite-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const fileOf = (bytes: Uint8Array): string => {
  const path = join(folder, `${files++}.onnx`);
  writeFileSync(path, bytes);
  return path;
};

/** Runs a command as the command line does: what it prints, and its exit code. */
async function run(
  ...argv: string[]
): Promise<{ readonly text: string; readonly code: number; readonly errors: string }> {
  const [lines, errors]: string[][] = [[], []];
  const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  const error = vi.spyOn(console, "error").mockImplementation((line: string) => void errors.push(line));
  try {
    const code = await rewrite.run(readArguments(rewrite, argv));
    return { text: lines.join("\n"), code, errors: errors.join("\n") };
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
}

describe("the command", () => {
  test("writes a model, checks it and says what was done", async () => {
    const out = join(folder, "out.onnx");
    const { text, code } = await run(fileOf(bytesOf("gemma3_op18_sdpa")), "-o", out, "--check", "--capacity", "40");
    expect(code).toBe(0);
    expect(text).toMatch(/4 × Concat → 4 × TensorScatter, capacity 40/);
    expect(text).toMatch(/1 × causal, window 8, 1 × causal/);
    expect(text).toMatch(/batch, decode 2 +\d\.\de[-+]\d/);
    const model = readModel(readFileSync(out));
    expect(model.opsets.get("")).toBe(24);
    expect(model.graph.inputs.find(({ name }) => name === "past_key_values.0.key")?.type).toMatchObject({
      shape: ["s10", 2, 40, 16],
    });
    expect(readdirSync(folder).filter((name) => name.includes("tmp"))).toEqual([]);
  });

  test("as JSON, with windows in the node and the mask kept", async () => {
    const out = join(folder, "windows.onnx");
    const { text } = await run(
      fileOf(bytesOf("mistral_op24")),
      "-o",
      out,
      "--opset",
      "25",
      "--keep-mask",
      "--check",
      "--json",
    );
    const report = JSON.parse(text) as {
      opset: unknown;
      check: { passed: boolean; steps: unknown[] };
      inputs: { removed: string[] };
    };
    expect(report).toMatchObject({ opset: { from: 24, to: 25 }, check: { passed: true }, inputs: { removed: [] } });
    const model = readModel(readFileSync(out));
    const attention = model.graph.nodes.filter(({ opType }) => opType === "Attention");
    expect(attention.map(({ attributes }) => attributes.get("left_window_size"))).toMatchObject([
      { value: 15n },
      { value: 15n },
    ]);
    expect(model.graph.inputs.find(({ name }) => name === "attention_mask")?.type).toMatchObject({
      shape: ["s10", "capacity"],
    });
  });

  test("nothing is written for what is refused", async () => {
    const out = join(folder, "none.onnx");
    const plain = buildModel({
      opset: 20,
      inputs: [value("x", "float32", [2])],
      outputs: [value("y", "float32", [2])],
      nodes: [node("Neg", ["x"], ["y"])],
    });
    await expect(run(fileOf(writeModel(plain)), "-o", out)).rejects.toThrow(/has no cache/);
    await expect(run(fileOf(bytesOf("llama_op24")), "-o", out, "--capacity", "many")).rejects.toThrow(
      /--capacity must be a whole number, got "many"/,
    );
    await expect(run(fileOf(bytesOf("llama_op24")))).rejects.toThrow(/-o out.onnx says where/);
    const path = fileOf(bytesOf("llama_op24"));
    await expect(run(path, "-o", path)).rejects.toThrow(/is the model itself/);
    await expect(run(path, "-o", join(folder, "nowhere", "out.onnx"))).rejects.toThrow(
      /is in a folder that is not there: make .*nowhere first/,
    );
    await expect(run(path, "-o", folder)).rejects.toThrow(/is a folder: give the file's name too, such as /);
    expect(existsSync(out)).toBe(false);
  });

  test("weights in other files stay there", async () => {
    const { model, pieces } = moveToExternalData(readModel(bytesOf("llama_op24")), { location: "weights.bin" });
    const [from, to] = [join(folder, "from"), join(folder, "to")];
    [from, to].forEach((path) => mkdirSync(path));
    writeFileSync(join(from, "model.onnx"), writeModel(model));
    writeFileSync(join(from, "weights.bin"), Buffer.concat(pieces));
    for (const out of [join(from, "out.onnx"), join(to, "out.onnx")]) {
      expect((await run(join(from, "model.onnx"), "-o", out, "--check")).code).toBe(0);
      expect(
        readModel(readFileSync(out)).graph.initializers.some(({ external }) => external?.location === "weights.bin"),
      ).toBe(true);
    }
    expect(readFileSync(join(to, "weights.bin")).equals(readFileSync(join(from, "weights.bin")))).toBe(true);
    // A file of that name with other contents is somebody else's.
    const other = join(folder, "other");
    mkdirSync(other);
    writeFileSync(join(other, "weights.bin"), "something else");
    await expect(run(join(from, "model.onnx"), "-o", join(other, "out.onnx"))).rejects.toThrow(
      /weights\.bin is there and holds something else/,
    );
    expect(readdirSync(other)).toEqual(["weights.bin"]);
    // Links into a store: what they point to is copied.
    const [linked, away] = [join(folder, "linked"), join(folder, "away")];
    [linked, away].forEach((path) => mkdirSync(path));
    for (const file of ["model.onnx", "weights.bin"]) symlinkSync(join(from, file), join(linked, file));
    expect((await run(join(linked, "model.onnx"), "-o", join(away, "out.onnx"), "--check")).code).toBe(0);
    expect(readFileSync(join(away, "weights.bin")).equals(readFileSync(join(from, "weights.bin")))).toBe(true);
  });

  test("a table of a mask among the weights in other files is read", async () => {
    const model = styledDecoder({ mask: "tril-gather", sizes: { positions: 300 } });
    const { model: moved, pieces } = moveToExternalData(model, { location: "tables.bin", threshold: 0 });
    expect(moved.graph.initializers.some(({ external, dims }) => external !== undefined && dims[2] === 300)).toBe(true);
    const path = join(folder, "tables.onnx");
    writeFileSync(path, writeModel(moved));
    writeFileSync(join(folder, "tables.bin"), Buffer.concat(pieces));
    const { text, code } = await run(path, "-o", join(folder, "tables-out.onnx"), "--check");
    expect(code, text).toBe(0);
    expect(text).toMatch(/2 × causal/);
    const { model: bytes, report } = await rewriteBytes(path);
    expect(report.attentions.map(({ mask }) => mask)).toEqual(["causal", "causal"]);
    const session = await InferenceSession.create(path, { rewrite: "auto", inPlace: "require" });
    const given = [{ path: "tables.bin", data: new Uint8Array(Buffer.concat(pieces)) }];
    const other = await InferenceSession.create(bytes, { externalData: given });
    for (const one of [session, other]) expect(one.inputNames).toContain("write_indices");
    const again = await rewriteBytes(writeModel(moved), { externalData: given });
    expect(Buffer.compare(again.model, bytes)).toBe(0);
    await expect(rewriteBytes(writeModel(moved))).rejects.toThrow(/tables\.bin/);
  });

  test("a disk that fails leaves nothing behind", async () => {
    const bytes = fileOf(bytesOf("llama_op24"));
    const place = join(folder, "failing");
    mkdirSync(place);
    const handle = await open(bytes);
    const prototype = Object.getPrototypeOf(handle) as typeof handle;
    await handle.close();
    let pieces = 0;
    const write = vi.spyOn(prototype, "writeFile").mockImplementation(async () => {
      if (++pieces > 1) throw new Error("ENOSPC: no space left on device");
    });
    try {
      await expect(run(bytes, "-o", join(place, "out.onnx"))).rejects.toThrow(
        /the rewritten model cannot be written: ENOSPC/,
      );
      expect(pieces).toBeGreaterThan(1);
    } finally {
      write.mockRestore();
    }
    expect(readdirSync(place)).toEqual([]);
    // A folder where the file should be.
    mkdirSync(join(place, "taken.onnx"));
    await expect(run(bytes, "-o", join(place, "taken.onnx"))).rejects.toThrow();
    expect(readdirSync(place)).toEqual(["taken.onnx"]);
  });

  test("an existing file is replaced by a whole one, and kept where the model is refused", async () => {
    const out = join(folder, "kept.onnx");
    writeFileSync(out, "what was there");
    const refused = fileOf(writeModel(styledDecoder({ growth: "stacked" })));
    await expect(run(refused, "-o", out)).rejects.toThrow(/cache "past_0" cannot be rewritten: Gather "Gather_\d+"/);
    expect(readFileSync(out, "utf8")).toBe("what was there");
    expect((await run(fileOf(bytesOf("llama_op24")), "-o", out)).code).toBe(0);
    expect(readModel(readFileSync(out)).opsets.get("")).toBe(24);
  });

  test("inspect says what would change, and what resists", async () => {
    const look = async (bytes: Uint8Array): Promise<string> => {
      const lines: string[] = [];
      const log = vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
      await inspect.run(readArguments(inspect, [fileOf(bytes)]));
      log.mockRestore();
      return lines.join("\n");
    };
    expect(await look(bytesOf("gemma3_op18_sdpa"))).toMatch(
      /insitu rewrite would make every cache.*4 caches from Concat to TensorScatter/,
    );
    expect(await look(writeModel(styledDecoder({ growth: "gqa", mask: "none" })))).toMatch(
      /in place: nothing else[^]*insitu rewrite would give the caches a fixed capacity: \d+ caches from GroupQueryAttention/,
    );
    const model = styledDecoder({ attend: "node", opset: 24, repeat: "none" });
    const squashed = model.graph.nodes.flatMap((one) =>
      one.opType === "Attention"
        ? [
            node("Tanh", [one.inputs[1]], [`${one.name}_k`], {}, { name: "squash" }),
            { ...one, inputs: one.inputs.map((name, at) => (at === 1 ? `${one.name}_k` : name)) },
          ]
        : [one],
    );
    expect(await look(writeModel({ ...model, graph: { ...model.graph, nodes: squashed } }))).toMatch(
      /insitu rewrite cannot.*\n +past.0.key: /,
    );
    expect(await look((await rewriteBytes(bytesOf("llama_op24"))).model)).not.toMatch(/insitu rewrite/);
  });
});

describe("the check", () => {
  test("finds a model that does something else", async () => {
    const model = styledDecoder({ mask: "window", window: 3 });
    const other = styledDecoder({ mask: "window", window: 4 });
    const rewritten = (await rewriteBytes(writeModel(other))).model;
    const { passed, steps } = await checkRewrite({
      model,
      original: writeModel(model),
      rewritten,
      capacity: undefined,
    });
    expect(passed).toBe(false);
    expect(Math.max(...steps.map(({ difference }) => difference))).toBeGreaterThan(1e-3);
  });
});
