// Models by short name: the catalogue and its sources, which variant is taken, what is told before and while a model comes, and the commands
// that list, fetch and remove.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { InsituError } from "../../src/base/error.js";
import { seededRandom } from "../../src/graph/call.js";
import { catalogue } from "../../packages/hub/catalogue.js";
import { chooseFiles } from "../../packages/hub/choose-files.js";
import type { DownloadPlan, DownloadProgress } from "../../packages/hub/models-api.js";
import { fetchNamedModel, modelsIn } from "../../src/platform/node-models.js";
import { hubFolder } from "../generate/support.js";
import { builtCommand } from "../support/built.js";
import { type LocalHub, startHub } from "./local-hub.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 11);
const story = new Map<string, Uint8Array>();
let hub: LocalHub;
let cache: string;

beforeAll(async () => {
  const folder = hubFolder("llama_op24");
  for (const name of ["onnx/model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json"])
    story.set(name.replace("model.onnx", "model_q4.onnx"), new Uint8Array(readFileSync(join(folder.path, name))));
  folder.remove();
  hub = await startHub(new Map());
});
afterAll(() => hub.close());
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), "insitu-cache-"));
  hub.models.clear();
  hub.models.set("onnx-community/Qwen3-0.6B-ONNX", story);
  hub.answer = undefined;
  hub.requests.length = 0;
});
afterEach(() => rmSync(cache, { recursive: true, force: true }));

describe("the catalogue", () => {
  test("short names are lower case and each stands for one repository that its sources name", () => {
    expect(catalogue.length).toBeGreaterThan(20);
    expect(new Set(catalogue.map(({ name }) => name)).size).toBe(catalogue.length);
    expect(new Set(catalogue.map(({ repository }) => repository)).size).toBe(catalogue.length);
    for (const { name, repository, sources, variants, licence, context, parameters } of catalogue) {
      expect(name).toMatch(/^[a-z0-9][a-z0-9.-]*$/);
      expect(repository).toMatch(/^[\w.-]+\/[\w.-]+$/);
      expect(sources.length, name).toBeGreaterThan(0);
      for (const source of sources) expect(source, name).toMatch(/^https:\/\/(huggingface\.co|github\.com)\/\S+$/);
      expect(licence, name).toMatch(/^[a-z][\w.-]+$/);
      expect([Number.isSafeInteger(context), Number.isSafeInteger(parameters)], name).toEqual([true, true]);
      expect(variants.length, name).toBeGreaterThan(0);
      for (const { bytes } of variants) expect(bytes, name).toBeGreaterThan(50e6);
    }
  });

  test("what stands first by default has 4 bits wherever the repository has them", () => {
    for (const { name, repository, variants } of catalogue) {
      const isFolder = variants.every((variant) => variant.name.includes("int4"));
      const paths = variants.flatMap(({ name: variant }) =>
        isFolder
          ? [`x/${variant}/genai_config.json`, `x/${variant}/model.onnx`]
          : [`onnx/model${variant === "fp32" ? "" : `_${variant === "q8" ? "quantized" : variant}`}.onnx`],
      );
      const file = { url: "", size: 1, checksum: { kind: "git", value: "" } } as const;
      const files = new Map([...paths, "tokenizer.json"].map((path) => [path, file]));
      const wanted = (order: readonly string[]): string | undefined =>
        order.find((variant) => variants.some((each) => each.name === variant));
      const [host, device] = [false, true].map((on) => chooseFiles(repository, files, undefined, on).variant);
      expect(host, name).toBe(isFolder ? variants[0].name : wanted(["q4", "q4f16", "fp16"]));
      if (!isFolder) expect(device, name).toBe(wanted(["q4f16", "q4", "fp16"]));
    }
  });
});

test("a short name, its repository and any case of it are one model, told of before it comes", async () => {
  const plans: DownloadPlan[] = [];
  const told: DownloadProgress[] = [];
  const options = { hubUrl: hub.url, cache, onPlan: (plan: DownloadPlan) => plans.push(plan) };
  const lm = await CausalLM.load("qwen3-0.6b", { hub: { ...options, onProgress: (each) => told.push(each) } });
  const text = await lm.generate("abc", { maxTokens: 4, temperature: 0 }).text();
  await lm.release();
  const bytes = [...story.values()].reduce((sum, each) => sum + each.length, 0);
  expect(plans).toEqual([
    {
      name: "onnx-community/Qwen3-0.6B-ONNX",
      variant: "q4",
      files: expect.arrayContaining([...story.keys()]),
      bytes,
      bytesHere: 0,
      place: cache,
    },
  ]);
  expect(told.every(({ total }) => total === bytes)).toBe(true);
  expect(told.at(-1)!.loaded).toBe(bytes);
  const asked = hub.requests.length;
  for (const name of ["QWEN3-0.6B", "onnx-community/Qwen3-0.6B-ONNX"]) {
    const again = await CausalLM.load(name, { hub: options });
    expect(await again.generate("abc", { maxTokens: 4, temperature: 0 }).text()).toBe(text);
    await again.release();
  }
  expect([hub.requests.length, plans.length]).toEqual([asked, 1]);
});

test("4 bits where nobody says, in float16 on a GPU; what is kept before anything else; nothing of 4 GB unasked", async () => {
  const small = (...names: string[]): Map<string, Uint8Array> =>
    new Map(["tokenizer.json", ...names.map((name) => `onnx/${name}`)].map((name) => [name, Uint8Array.of(1)]));
  hub.models.set(
    "a/b",
    small("model.onnx", "model_fp16.onnx", "model_q4.onnx", "model_q4f16.onnx", "model_quantized.onnx"),
  );
  const taken = async (onDevice: boolean, variant?: string): Promise<string | undefined> =>
    (await fetchNamedModel("a/b", { hubUrl: hub.url, cache, ...(variant === undefined ? {} : { variant }) }, onDevice))
      .variant;
  expect(await taken(true)).toBe("q4f16");
  expect(await taken(false)).toBe("q4f16");
  rmSync(cache, { recursive: true });
  expect(await taken(false)).toBe("q4");
  expect(await taken(false, "q8")).toBe("q8");
  expect(readdirSync(join(cache, "a--b/main/onnx")).toSorted()).toEqual(["model_q4.onnx", "model_quantized.onnx"]);
  const file = (size: number) => ({ url: "", size, checksum: { kind: "git", value: "" } }) as const;
  const files = new Map([
    ["tokenizer.json", file(1)],
    ["onnx/model.onnx", file(1)],
    ["onnx/model.onnx_data", file(4e9)],
  ]);
  expect(() => chooseFiles("a/b", files, undefined, false)).toThrow(
    /has no variant of 4 bits, and fp32 takes .*: ask for it by name, with variant: "fp32"/,
  );
  expect(chooseFiles("a/b", files, "fp32", false).paths).toHaveLength(3);
});

test.each([
  ["qwen3-0.6", /did you mean qwen3-0\.6b\?/],
  ["smolm2-135m", /did you mean smollm2-135m\?/],
  ["llama3.2-1b", /did you mean llama-3\.2-1b\?/],
  ["zzzzzzzz", /a short name such as /],
])("no model is called %s", async (name, message) => {
  const error: unknown = await CausalLM.load(name, { hub: { cache } }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(InsituError);
  expect((error as InsituError).message).toMatch(message);
});

test("downloads cut at random bytes resume and are right", async () => {
  const random = seededRandom(seed);
  const bytes = story.get("onnx/model_q4.onnx")!;
  for (let round = 0; round < (soak ? 20 : 3); round++) {
    rmSync(cache, { recursive: true, force: true });
    let cuts = 1 + Math.floor(random() * 3);
    hub.requests.length = 0;
    hub.answer = (path, all, from) =>
      path.endsWith(".onnx") && cuts-- > 0 ? Math.floor(random() * (all.length - from)) : undefined;
    const { folder } = await fetchNamedModel("qwen3-0.6b", { hubUrl: hub.url, cache }, false);
    expect(Buffer.compare(readFileSync(join(folder, "onnx/model_q4.onnx")), bytes), `seed ${seed}, ${round}`).toBe(0);
  }
});

test("a page in place of a file, or of the list, is refused before it is kept", async () => {
  hub.answer = (path, _, __, response) => {
    if (!path.endsWith(".onnx")) return undefined;
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>log in");
    return true;
  };
  await expect(fetchNamedModel("qwen3-0.6b", { hubUrl: hub.url, cache }, false)).rejects.toThrow(
    /model_q4\.onnx is a web page, not the file: a login, a proxy/,
  );
  expect(readdirSync(cache, { recursive: true }).some((name) => String(name).includes(".onnx"))).toBe(false);
});

test("two loads at once fetch once", async () => {
  const options = { hubUrl: hub.url, cache };
  const both = await Promise.all([1, 2].map(() => fetchNamedModel("qwen3-0.6b", options, false)));
  expect(both[0]).toEqual(both[1]);
  expect(hub.requests.filter((request) => request.includes(".onnx"))).toHaveLength(1);
});

test("models: what is kept, how much room there is, and nothing once it is removed", async () => {
  const own = modelsIn(cache);
  expect(await own.list()).toEqual([]);
  const kept = await own.pull("qwen3-0.6b", { hubUrl: hub.url });
  expect(await own.list()).toEqual([kept]);
  expect(kept).toMatchObject({ name: "onnx-community/Qwen3-0.6B-ONNX", revision: "main", complete: ["q4"] });
  expect(await own.storage()).toMatchObject({ kind: "folder", place: cache, usedBytes: kept.bytes });
  expect((await own.storage()).freeBytes).toBeGreaterThan(0);
  expect(await own.persist()).toBe(true);
  await expect(own.remove("smollm2-135m")).rejects.toThrow(/is not kept in .*; there is onnx-community\/Qwen3/);
  expect(await own.remove("qwen3-0.6b")).toEqual([kept]);
  expect([await own.list(), readdirSync(cache)]).toEqual([[], []]);
});

describe("on the command line", () => {
  const insitu = (...args: string[]): Promise<{ status: number | null; stdout: string; stderr: string }> => {
    const env = { ...process.env, HF_ENDPOINT: hub.url, INSITU_CACHE: cache, HF_TOKEN: "" };
    const child = spawn(process.execPath, [builtCommand, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    return new Promise((resolve) => child.on("close", (status) => resolve({ status, stdout, stderr })));
  };

  test("pull, list, remove", async () => {
    const before = await insitu("models");
    expect(before.stdout).toMatch(/^no models are stored in /);
    expect(before.stdout).toMatch(/^smollm2-135m +1\d\d(\.\d)? MiB +q4 +apache-2\.0$/m);
    const pulled = await insitu("pull", "qwen3-0.6b");
    expect(pulled.stderr).toMatch(/^fetching onnx-community\/Qwen3-0\.6B-ONNX, q4: \S+ \S+ into /);
    expect([pulled.status, pulled.stdout]).toEqual([0, expect.stringMatching(/^onnx-community\/Qwen3.* is in /)]);
    const listed = await insitu("models", "--all");
    expect(listed.stdout).toMatch(/^onnx-community\/Qwen3-0\.6B-ONNX +\S+ \S+ +q4$/m);
    expect(listed.stdout).toMatch(/^qwen3-0\.6b .* here$/m);
    const json = JSON.parse((await insitu("models", "--json")).stdout) as object[];
    expect(json).toEqual([expect.objectContaining({ name: "onnx-community/Qwen3-0.6B-ONNX", complete: ["q4"] })]);
    const told = await insitu("generate", "abc", "--model", "qwen3-0.6b", "--max-tokens", "3", "--quiet");
    expect([told.status, told.stderr]).toEqual([0, ""]);
    expect((await insitu("models", "remove", "qwen3-0.6b")).stdout).toMatch(
      /^removed onnx-community\/Qwen3-0\.6B-ONNX@main/,
    );
    expect(existsSync(join(cache, "onnx-community--Qwen3-0.6B-ONNX"))).toBe(false);
  });

  test.each(["pull", "chat", "serve"])("%s of a name that nobody has", async (command) => {
    const { status, stdout, stderr } = await insitu(command, "qwen3-0.6");
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^insitu: there is no.*qwen3-0\.6".*did you mean qwen3-0\.6b\?.*\n$/);
  });
});
