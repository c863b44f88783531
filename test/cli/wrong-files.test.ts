// A file that is no ONNX model is named for what it is, with the way out, by the session, by the language model and on the command line.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import { embedded } from "../generate/support.js";
import { insituHere } from "../support/command-line.js";

const folder = mkdtempSync(join(tmpdir(), "insitu-wrong-"));
afterAll(() => rmSync(folder, { recursive: true }));

const bytes = (text: string): Uint8Array => Uint8Array.from(text, (character) => character.charCodeAt(0));

/** What people hand in, by how it begins. */
const kinds: [what: string, contents: Uint8Array, sentence: RegExp][] = [
  [
    "model.gguf",
    bytes(`GGUF\x03\0\0\0${"\0".repeat(64)}`),
    /is a GGUF file, which llama\.cpp runs; insitu runs ONNX files/,
  ],
  [
    "model.safetensors",
    bytes(`\x28\0\0\0\0\0\0\0{"weight":{"dtype":"F32"}}`),
    /is a safetensors file: weights without/,
  ],
  [
    "pointer.bin",
    bytes("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
    /is a git-LFS pointer, not the file itself: run git lfs pull/,
  ],
  ["page.html", bytes("\n<!DOCTYPE html><html><body>404</body></html>"), /is an HTML page: servers send one/],
  [
    "config.json",
    bytes('{\n  "model_type": "llama"\n}'),
    /is JSON: .* give the ONNX file, or the folder that holds both/,
  ],
  ["pytorch_model.bin", bytes("PK\x03\x04\0\0"), /is a zip archive, as PyTorch saves weights/],
];

test.each(kinds)("%s", async (name, contents, sentence) => {
  const [own, onnx] = [join(folder, name), join(folder, `${name}.onnx`)];
  writeFileSync(own, contents);
  writeFileSync(onnx, contents);
  await expect(InferenceSession.create(contents)).rejects.toThrow(sentence);
  await expect(InferenceSession.create(onnx)).rejects.toThrow(sentence);
  await expect(CausalLM.load(own)).rejects.toThrow(sentence);
  for (const args of [
    ["inspect", own],
    ["generate", "x", "--model", own],
    ["rewrite", onnx, "-o", join(folder, "out.onnx")],
  ]) {
    const { status, stdout, stderr } = await insituHere(args);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(sentence);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  }
});

test("what was cloned without git-LFS is told by the first file that is read", async () => {
  const clone = join(folder, "clone");
  mkdirSync(join(clone, "onnx"), { recursive: true });
  for (const name of ["tokenizer.json", "onnx/model.onnx"]) writeFileSync(join(clone, name), kinds[2][1]);
  await expect(CausalLM.load(clone)).rejects.toThrow(/clone\/tokenizer\.json is a git-LFS pointer/);
  copyFileSync(join(embedded, "tokenizer.json"), join(clone, "tokenizer.json"));
  await expect(CausalLM.load(clone)).rejects.toThrow(/clone\/onnx\/model\.onnx is a git-LFS pointer/);
});

test("folders, paths that lead nowhere, and URLs", async () => {
  await expect(InferenceSession.create(embedded)).rejects.toThrow(
    `cannot be opened: it is a folder: give the ONNX file in it, ${join(embedded, "onnx", "model.onnx")}`,
  );
  await expect(InferenceSession.create(folder)).rejects.toThrow(/it is a folder, and holds no model\.onnx/);
  await expect(InferenceSession.create("./none.onnx")).rejects.toThrow(
    "./none.onnx cannot be opened: there is no such",
  );
  for (const none of ["./none.onnx", "./none"])
    await expect(CausalLM.load(none)).rejects.toThrow(
      `there is nothing at "${none}": a model is a folder in the hub's layout, an ONNX file`,
    );
  const page = "https://huggingface.co/owner/name/tree/main/onnx";
  await expect(CausalLM.load(page)).rejects.toThrow(
    `"${page}" is a URL of the hub: give the model's name there, "owner/name"`,
  );
  await expect(InferenceSession.create(page)).rejects.toThrow(/insitu generate take the name, owner\/name$/);
  await expect(InferenceSession.create("https://example.com/model.onnx")).rejects.toThrow(/download it first$/);
});

test("inspect takes the folder that generate takes", async () => {
  const [whole, file] = [await insituHere(["inspect", embedded]), join(embedded, "onnx", "model.onnx")];
  expect(whole.status).toBe(0);
  expect(whole.stdout).toBe((await insituHere(["inspect", file])).stdout);
  expect((await insituHere(["inspect", embedded, "--variant", "q4"])).stderr).toMatch(/it is a folder: give/);
});

test("an encoder makes no text, and says what runs it", async () => {
  const encoder = join(folder, "encoder");
  mkdirSync(join(encoder, "onnx"), { recursive: true });
  copyFileSync(join(embedded, "tokenizer.json"), join(encoder, "tokenizer.json"));
  const model = buildModel({
    opset: 20,
    inputs: [value("input_ids", "int64", ["batch", "tokens"]), value("token_type_ids", "int64", ["batch", "tokens"])],
    outputs: [value("last_hidden_state", "int64", ["batch", "tokens"])],
    nodes: [node("Add", ["input_ids", "token_type_ids"], ["last_hidden_state"])],
  });
  writeFileSync(join(encoder, "onnx", "model.onnx"), writeModel(model));
  await expect(CausalLM.load(encoder)).rejects.toThrow(
    "the model is an encoder: it has neither logits of tokens nor a cache (input_ids, token_type_ids → last_hidden_state), and cannot generate text; InferenceSession.create runs it",
  );
  const apart = join(folder, "apart");
  mkdirSync(join(apart, "onnx"), { recursive: true });
  copyFileSync(join(embedded, "tokenizer.json"), join(apart, "tokenizer.json"));
  writeFileSync(join(apart, "onnx", "encoder_model.onnx"), "");
  await expect(CausalLM.load(apart)).rejects.toThrow(/apart" holds an encoder and a decoder, as/);
});
