// `insitu check` on folders and on a hub that is a server on this machine: what it says is what loading does, and weights are never fetched. Folders
// that are half a model are refused with the file, the node and the way out, by the check and by loading alike.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { InsituError } from "../../src/base/error.js";
import { checkModel, type CheckReport } from "../../packages/cli/check-report.js";
import { openChecked } from "../../packages/cli/check-source.js";
import { node } from "../../src/onnx/build.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { embedded } from "../generate/support.js";
import { type LocalHub, startHub } from "../hub/local-hub.js";
import { insituHere } from "../support/command-line.js";
import { publishedFiles, publishedFolders, writeFolder } from "../support/published-folders.js";

const reportOf = async (given: string, variant?: string): Promise<CheckReport> =>
  checkModel(await openChecked(given, variant === undefined ? {} : { variant }, false), undefined);

/** The embedded model in two files: a small graph, and its weights beside it. */
function apart(): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>(
    readdirSync(embedded, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const path = relative(embedded, join(entry.parentPath, entry.name));
        return [path, new Uint8Array(readFileSync(join(embedded, path)))] as const;
      }),
  );
  const moved = moveToExternalData(readModel(files.get("onnx/model.onnx")!), { location: "model.onnx_data" });
  files.set("onnx/model.onnx", writeModel(moved.model));
  files.set("onnx/model.onnx_data", concatenate(moved.pieces));
  return files;
}

test.each(publishedFolders)("%s: runs, caches and pages are those of the loaded model", async (name) => {
  const folder = writeFolder(publishedFiles(name));
  const report = await reportOf(folder.path);
  const lm = await CausalLM.load(folder.path, { threads: 1 });
  const explained = lm.session.explain({ json: true });
  expect([report.runs, report.problems]).toEqual([true, []]);
  expect(report.caches!.inPlace).toBe(explained.caches.filter((cache) => cache.inPlace).length);
  expect(report.caches!.count).toBe(explained.caches.length);
  expect(report.memory!.weightBytes / explained.weightBytes).toBeCloseTo(1, 1);
  await lm.release();
  const paged = await CausalLM.load(folder.path, { threads: 1, cache: "paged", context: 32 }).then(
    (loaded) => loaded.release().then(() => true),
    () => false,
  );
  expect(report.pages!.possible).toBe(paged);
  folder.remove();
});

describe("folders that are half a model", () => {
  const broken: [string, (files: Map<string, Uint8Array>) => void, RegExp][] = [
    [
      "no weights",
      (files) => files.delete("onnx/model.onnx_data"),
      /model\.onnx_data.*(is not there|no such file|cannot be opened)/,
    ],
    [
      "half of the weights",
      (files) => files.set("onnx/model.onnx_data", files.get("onnx/model.onnx_data")!.slice(0, 5000)),
      /model\.onnx_data.*(has 5000 bytes|5000)/,
    ],
    ["no model", (files) => files.delete("onnx/model.onnx"), /no (onnx\/)?(ONNX file|model\.onnx)/],
    ["no tokenizer", (files) => files.delete("tokenizer.json"), /tokenizer\.json/],
    [
      "an operator that nobody has",
      (files) => {
        const model = readModel(files.get("onnx/model.onnx")!.slice());
        const nodes = model.graph.nodes.map((each, at) =>
          at === 5 ? node("Frobnicate", each.inputs, each.outputs, {}, { name: "the_one" }) : each,
        );
        files.set("onnx/model.onnx", writeModel({ ...model, graph: { ...model.graph, nodes } }));
        // Were they read first, this would be what is told.
        files.set("onnx/model.onnx_data", new Uint8Array(3));
      },
      /Frobnicate \(node "the_one"\)|model\.onnx_data, which has 3 bytes/,
    ],
    [
      "a page in place of the model",
      (files) => files.set("onnx/model.onnx", new TextEncoder().encode("<!doctype html><p>log in")),
      /is an HTML page/,
    ],
    [
      "a pointer in place of the model",
      (files) =>
        files.set(
          "onnx/model.onnx",
          new TextEncoder().encode("version https://git-lfs.github.com/spec/v1\noid sha256:00"),
        ),
      /is a git-LFS pointer/,
    ],
  ];
  test.each(broken)("%s", async (_, damage, message) => {
    const files = apart();
    damage(files);
    const folder = writeFolder(files);
    const told = await reportOf(folder.path).then(
      ({ runs, problems }) => (runs ? "runs" : problems.join("\n")),
      (error: Error) => error.message,
    );
    expect(told).toMatch(message);
    const refused: unknown = await CausalLM.load(folder.path).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(InsituError);
    expect((refused as InsituError).message).toMatch(message);
    folder.remove();
  });

  test("an unknown operator is told before weights are looked at", async () => {
    const files = apart();
    broken.find(([name]) => name === "an operator that nobody has")![1](files);
    const folder = writeFolder(files);
    await expect(CausalLM.load(folder.path)).rejects.toThrow(
      /model\.onnx calls an operator that is not supported: Frobnicate \(node "the_one"\); docs\/operators\.md/,
    );
    folder.remove();
  });
});

describe("on a hub", () => {
  let hub: LocalHub;
  let cache: string;
  let sent = 0;
  const variables = ["HF_ENDPOINT", "INSITU_CACHE", "HF_TOKEN"];
  const before = variables.map((name) => process.env[name]);
  beforeAll(async () => {
    hub = await startHub(new Map());
  });
  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), "insitu-check-"));
    const files = apart();
    const whole = new Uint8Array(readFileSync(join(embedded, "onnx/model.onnx")));
    hub.models.set(
      "one/file",
      new Map([...files].filter(([path]) => !path.includes("onnx/")).concat([["onnx/model_q4.onnx", whole]])),
    );
    hub.models.set("two/files", files);
    hub.requests.length = sent = 0;
    hub.answer = (_, bytes, from) => {
      const [, last] = /bytes=\d+-(\d+)$/.exec(hub.requests.at(-1)!) ?? [];
      sent += (last === undefined ? bytes.length : Number(last) + 1) - from;
      return undefined;
    };
    Object.assign(process.env, { HF_ENDPOINT: hub.url, INSITU_CACHE: cache, HF_TOKEN: "" });
  });
  afterEach(() => rmSync(cache, { recursive: true, force: true }));
  afterAll(async () => {
    await hub.close();
    variables.forEach((name, at) =>
      before[at] === undefined ? delete process.env[name] : (process.env[name] = before[at]),
    );
  });

  test.each([
    ["one/file", "q4"],
    ["two/files", "fp32"],
  ])("%s: the same page as for its folder, without its weights", async (name, variant) => {
    const report = await reportOf(name);
    const { runs, operators, caches, pages, memory, speed } = await reportOf(embedded);
    expect(report).toMatchObject({ name, variant, runs, operators, caches, pages, speed });
    expect(report.memory!.cacheBytes).toBe(memory!.cacheBytes);
    expect(report.bytes).toBeGreaterThan(11e6);
    expect(sent).toBeLessThan(2.5e6);
    expect(existsSync(join(cache, name.replace("/", "--")))).toBe(false);
  });

  test("the command: a page, JSON, and 1 where it does not run", async () => {
    const page = await insituHere(["check", "one/file"]);
    expect([page.status, page.stderr]).toEqual([0, ""]);
    expect(page.stdout).toMatch(/^one\/file, q4: runs\n/);
    expect(page.stdout).toMatch(/^caches: 12 of 12 updates in place$/m);
    expect(page.stdout).toMatch(/^ {2}H200 +4800 GB\/s +\S+ tokens a second$/m);
    expect(page.stdout.split("\n").length).toBeLessThan(40);
    const json = JSON.parse(
      (await insituHere(["check", "one/file", "--json", "--context", "64"])).stdout,
    ) as CheckReport;
    expect(json).toMatchObject({ runs: true, problems: [], memory: { context: 64 } });
    hub.models.get("two/files")!.delete("onnx/model.onnx_data");
    const half = await insituHere(["check", "two/files"]);
    expect([half.status, half.stderr]).toEqual([1, ""]);
    expect(half.stdout).toMatch(
      /^two\/files, fp32: does not run\n.*model\.onnx_data, which is not there: download it again/,
    );
    expect(await insituHere(["check", "qwen3-0.6"])).toMatchObject({
      status: 1,
      stdout: "",
      stderr: expect.stringMatching(/did you mean qwen3-0\.6b/),
    });
    expect(await insituHere(["check", "one/file", "--context", "1"])).toMatchObject({ status: 2 });
  });

  test("an empty folder, and none", async () => {
    writeFileSync(join(cache, "nothing.txt"), "");
    expect((await insituHere(["check", cache])).stderr).toMatch(
      /no ONNX file of a text model is in ".*": give a folder/,
    );
    expect((await insituHere(["check", join(cache, "a/b/c")])).stderr).toMatch(/there is nothing at/);
  });
});
