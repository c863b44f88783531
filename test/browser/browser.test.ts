// The built package in a real browser: the KV family of ONNX's tests and a decode loop, isolated with threads and unisolated without,
// as plain modules, as the bundle that comes along and through bundlers by the recipes of docs/browsers.md, and what the page is told
// where workers cannot be had. The tests run all of the family with threads and a fifth of it in the other two ways, the soak all three times.
import { spawnSync } from "node:child_process";
import { cpSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build as esbuild } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { build as viteBuild } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CaseFiles } from "../../tools/conformance/case.js";
import { type DecoderSizes, generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { archivedCases } from "../support/archived-cases.js";
import { type InstalledPackage, installPackage } from "../support/installed-package.js";
import { distance } from "../support/compare.js";
import { findChromium, howToInstall, startChromium } from "./chromium.js";
import { decode } from "./decode.js";
import { recipe } from "./recipes.js";
import { isolation, type RunningServer, startServer } from "./server.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));
const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

/** Large enough for kernels to split work, small enough for the reference implementation. */
const sizes: DecoderSizes = { ...smallSizes, layers: 4, hidden: 128, headSize: 32, intermediate: 256, vocabulary: 256 };

const family =
  /attention|tensorscatter|tensor_scatter|linear_attention|causal_conv|flexattention|flex_attention|rotary|rms_norm|swiglu/;
const cases = archivedCases(new URL("../conformance/onnx-node-1.23.1.tar.br", import.meta.url)).filter(({ name }) =>
  family.test(name),
);

/** All cases as one file of bytes and an index of places in it. */
function packCases(all: readonly CaseFiles[]): { json: string; bytes: Uint8Array } {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const place = (bytes: Uint8Array | undefined): readonly [number, number] | null => {
    if (bytes === undefined) return null;
    pieces.push(bytes);
    size += bytes.length;
    return [size - bytes.length, bytes.length];
  };
  const index = all.map(({ name, tolerance, model, sets }) => ({
    name,
    tolerance,
    model: place(model as Uint8Array),
    sets: sets.map(({ inputs, outputs }) => ({ inputs: inputs.map(place), outputs: outputs.map(place) })),
  }));
  return { json: JSON.stringify(index), bytes: Buffer.concat(pieces) };
}

const html = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify({ imports: { "#insitu/": "/dist/" } })}</script><script type="module" src="/page.js"></script>`;

interface Decoded {
  readonly memories: number;
  readonly tokens: readonly number[];
  readonly logits: readonly number[];
  readonly lengths: readonly number[];
  readonly movedBytes: number;
}

/** A page of one server, and how to ask its harness. */
class TestPage {
  readonly server: RunningServer;
  readonly page: Page;
  readonly problems: string[] = [];
  /** Workers that the page and its workers have started so far. */
  started = 0;

  private constructor(server: RunningServer, page: Page) {
    this.server = server;
    this.page = page;
    page.on("pageerror", (error) => this.problems.push(String(error)));
    page.on("worker", () => this.started++);
  }

  static async open(browser: Browser, server: RunningServer, path = "/index.html"): Promise<TestPage> {
    const opened = new TestPage(server, await browser.newPage());
    opened.page.setDefaultTimeout(240_000);
    await opened.page.goto(`${server.base}${path}`);
    await opened.page.waitForFunction(() => "harness" in globalThis);
    return opened;
  }

  ask<Result>(name: string, argument: object = {}): Promise<Result> {
    type Harness = Readonly<Record<string, (given: object) => Promise<Result>>>;
    return this.page.evaluate(([method, given]) => (globalThis as { harness?: Harness }).harness![method](given), [
      name,
      argument,
    ] as const);
  }

  decode(entry: string, options: object, more: object = {}): Promise<Decoded> {
    return this.ask("decode", { entry, model: "/models/decoder.onnx", options, ...more });
  }
}

/** The same tokens, and logits as close as different engines' Math leaves them. */
function expectSame(actual: Decoded, expected: Decoded): void {
  expect(actual).toMatchObject({ tokens: expected.tokens, lengths: expected.lengths, movedBytes: 0 });
  expect(distance(actual.logits, expected.logits)).toBeLessThan(1e-5);
}

describe.skipIf(chromium === undefined)("in Chromium", () => {
  let browser: Browser;
  let installed: InstalledPackage;
  let isolated: TestPage;
  let unisolated: TestPage;
  /** A page whose content security policy allows no WebAssembly. */
  let guarded: TestPage;
  const expected = new Map<number, Decoded>();
  const warnings: string[] = [];

  beforeAll(async () => {
    const { json, bytes } = packCases(cases);
    const { model, pieces } = moveToExternalData(generatedDecoder(sizes), { location: "decoder.weights" });
    const whole = writeModel(generatedDecoder(sizes));
    for (const threads of [1, 2])
      expected.set(threads, (await decode({ InferenceSession, Tensor }, whole, { threads })) as Decoded);

    installed = installPackage();
    await bundle(installed.project, warnings);
    const worker = "platform/kernel-worker-web.js";
    const files = new Map<string, Uint8Array | string | undefined>([
      ["/index.html", html],
      ["/plain.html", recipe("html", "<!doctype html>")],
      [
        "/plain-harness.html",
        `<!doctype html><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>`,
      ],
      ["/cases.json", json],
      ["/cases.bin", bytes],
      ["/models/decoder.onnx", writeModel(model)],
      ["/models/decoder.weights", concatenate(pieces)],
      [`/dist-missing/${worker}`, undefined],
      [`/dist-other/${worker}`, "postMessage('good morning');"],
      [`/dist-broken/${worker}`, "throw new Error('broken on purpose');"],
    ]);
    const dist = join(root, "dist");
    const folders = {
      "/dist/": dist,
      "/dist-missing/": dist,
      "/dist-other/": dist,
      "/dist-broken/": dist,
      "/modules/": join(root, "node_modules"),
      "/node_modules/": join(installed.project, "node_modules"),
      "/public/": join(installed.project, "public"),
      "/bundled/": join(installed.project, "out"),
      "/": here,
    };
    browser = await startChromium(chromium!);
    const open = async (headers: Record<string, string>): Promise<TestPage> =>
      TestPage.open(browser, await startServer({ headers, folders, files }));
    isolated = await open({ ...isolation });
    unisolated = await open({});
    guarded = await open({ "content-security-policy": "script-src 'self' 'unsafe-inline'" });
  });

  afterAll(async () => {
    await browser?.close();
    for (const opened of [isolated, unisolated, guarded]) opened?.server.close();
    installed?.remove();
  });

  describe("on an isolated page", () => {
    test("a model and the weights beside it load by URL, in ranges, and decode with threads as in Node", async () => {
      expect(await isolated.ask("isolated")).toBe(true);
      expectSame(await isolated.decode("/dist/index.js", { threads: 2, inPlace: "require" }), expected.get(2)!);
      expect(isolated.started).toBe(1);
      const weights = isolated.server.requests.filter((request) => request.startsWith("/models/decoder.weights"));
      expect(weights.length).toBeGreaterThan(1);
      expect(weights.every((request) => /^\S+ bytes=\d+-\d* 206$/.test(request))).toBe(true);
    });

    test("threads end after the last release, and a run does without those that ended before", async () => {
      await expect.poll(() => isolated.page.workers().length).toBe(0);
      const asked = { entry: "/dist/index.js", model: "/models/decoder.onnx", options: { threads: 3 } };
      const whole = await isolated.decode(asked.entry, asked.options);
      expectSame(await isolated.ask("decodeLosing", asked), whole);
      await expect.poll(() => isolated.page.workers().length).toBe(0);
    });

    test("a model spread over several memories decodes the same: workers join them as they open", async () => {
      const spread = await isolated.decode("/dist/index.js", { threads: 2, wasm: { memoryBytes: 2 ** 22 } });
      expectSame(spread, expected.get(2)!);
      expect([spread.memories, expected.get(2)!.memories]).toEqual([2, 1]);
    });

    test("the KV family passes on wasm with threads", async () => {
      expect(cases.length).toBeGreaterThanOrEqual(325);
      expect(await isolated.ask("cases", { options: { backend: "wasm", threads: 2 }, every: 1 })).toEqual(passed(1));
    });

    test("the KV family passes on reference", async () => {
      expect(await isolated.ask("cases", { options: { backend: "reference" }, every: some })).toEqual(passed(some));
    });

    test("a worker whose script is missing, broken or another one is told, and one thread is there for the asking", async () => {
      for (const [variant, reason] of [
        ["missing", "its script could not be loaded"],
        ["other", "another script answered"],
        ["broken", "Uncaught Error: broken on purpose"],
      ]) {
        const entry = `/dist-${variant}/index.js`;
        expect(await isolated.decode(entry, { threads: 2 })).toEqual({
          error: "InsituError",
          code: "invalid-argument",
          message:
            `threads: 2 are not available here: a worker did not start (${reason}: kernel-worker-web.js must be served beside ` +
            `the script that starts it, ${isolated.server.base}/dist-${variant}/platform/web.js); ask for threads: 1`,
        });
        expectSame(await isolated.decode(entry, { threads: 1 }), expected.get(1)!);
      }
    });

    test("what Vite builds decodes with threads, in the page and in a worker of it", async () => {
      expect(warnings).toEqual([]);
      const before = isolated.started;
      expectSame(await isolated.decode("/bundled/vite/app.js", { threads: 2 }), expected.get(2)!);
      expect(isolated.started).toBe(before + 1);
      const job = { worker: "/bundled/vite/app-worker.js", model: "/models/decoder.onnx", options: { threads: 2 } };
      expectSame(await isolated.ask("decodeInWorker", job), expected.get(2)!);
    });

    test("the bundle that comes along needs no import map, decodes with threads, and fetches one build of the kernels", async () => {
      const plain = await TestPage.open(browser, isolated.server, "/plain-harness.html");
      const before = isolated.server.requests.length;
      const entry = "/node_modules/insitu/dist/browser/insitu.js";
      expectSame(await plain.decode(entry, { threads: 2, inPlace: "require" }), expected.get(2)!);
      const requests = isolated.server.requests.slice(before);
      expect(requests.filter((request) => /\/(relaxed|simd)\.gen/.test(request))).toHaveLength(1);
      expect(
        requests.some((request) => request.startsWith("/node_modules/insitu/dist/browser/kernel-worker-web.js")),
      ).toBe(true);
      expect(plain.problems).toEqual([]);
      await plain.page.close();
    });

    test("the page of docs/browsers.md loads a model, and its headers are those that isolate", async () => {
      const shown = await browser.newPage();
      shown.setDefaultTimeout(240_000);
      await shown.goto(`${isolated.server.base}/plain.html`);
      await shown.waitForFunction(() => document.body.textContent?.startsWith("input_ids, position_ids"));
      expect(await shown.title()).toBe("100 %");
      await shown.close();
      const lines = recipe("http", "Cross-Origin").trim().toLowerCase().split("\n");
      expect(lines).toEqual(Object.entries(isolation).map(([name, value]) => `${name}: ${value}`));
    });

    test("what esbuild builds decodes with one thread, and with more where the worker is built beside it", async () => {
      expectSame(await isolated.decode("/bundled/esbuild/app.js", { threads: 1 }), expected.get(1)!);
      expect(await isolated.decode("/bundled/esbuild/app.js", { threads: 2 })).toMatchObject({
        code: "invalid-argument",
        message: expect.stringContaining("kernel-worker-web.js must be served beside"),
      });
      const before = isolated.server.requests.length;
      expectSame(await isolated.decode("/public/app.js", { threads: 2 }), expected.get(2)!);
      const kernels = isolated.server.requests.slice(before).filter((request) => /\/(relaxed|simd)\.gen/.test(request));
      expect(kernels).toHaveLength(1);
    });
  });

  describe("on a page that is not isolated", () => {
    test("one thread is the default, and more are refused with the reason", async () => {
      expect(await unisolated.ask("isolated")).toBe(false);
      expectSame(await unisolated.decode("/dist/index.js", {}), expected.get(1)!);
      expect(await unisolated.decode("/dist/index.js", { threads: 2 })).toEqual({
        error: "InsituError",
        code: "invalid-argument",
        message:
          "threads: 2 are not available here: the page is not cross-origin isolated (COOP and COEP headers), " +
          "so memory cannot be shared; ask for threads: 1",
      });
      expect(unisolated.page.workers()).toEqual([]);
    });

    test("the KV family passes on wasm", async () => {
      expect(await unisolated.ask("cases", { options: { backend: "wasm" }, every: some })).toEqual(passed(some));
    });

    test("bundles of Vite and esbuild decode", async () => {
      for (const entry of ["/bundled/vite/app.js", "/bundled/esbuild/app.js"])
        expectSame(await unisolated.decode(entry, {}), expected.get(1)!);
    });
  });

  test("a page whose policy forbids WebAssembly is told, and may ask for the reference", async () => {
    expect(await guarded.decode("/dist/index.js", {})).toMatchObject({
      code: "invalid-argument",
      message: expect.stringMatching(/^the kernels did not compile \(.*\); use backend: "reference", which is slow$/s),
    });
    expectSame(await guarded.decode("/dist/index.js", { backend: "reference" }), expected.get(1)!);
  });

  test("nothing went wrong unheard", () => {
    expect([isolated, unisolated, guarded].flatMap(({ problems }) => problems)).toEqual([]);
  });
});

const some = soak ? 1 : 5;
/** What is told where one of so many cases ran, and passed. */
const passed = (every: number): object => ({ passed: Math.ceil(cases.length / every), others: [] });

/** Builds the application with each bundler, from the installed package, into the project's `out` folder. */
async function bundle(project: string, warnings: string[]): Promise<void> {
  for (const name of ["app.js", "app-worker.js", "decode.js"]) cpSync(join(here, name), join(project, name));
  const entries = { app: join(project, "app.js"), "app-worker": join(project, "app-worker.js") };
  for (const name of ["vite", "esbuild"])
    symlinkSync(join(root, "node_modules", name), join(project, "node_modules", name), "dir");
  writeFileSync(join(project, "vite.config.js"), recipe("js", "// vite.config.js"));
  writeFileSync(join(project, "build.mjs"), recipe("js", "// build.mjs"));
  await viteBuild({
    root: project,
    configFile: join(project, "vite.config.js"),
    logLevel: "silent",
    build: {
      outDir: "out/vite",
      minify: false,
      chunkSizeWarningLimit: 5_000,
      rolldownOptions: {
        input: entries,
        preserveEntrySignatures: "strict",
        output: { entryFileNames: "[name].js" },
        // Not those about how long the bundler's own plugins took.
        onwarn: ({ code, message }) => void (code === "PLUGIN_TIMINGS" || warnings.push(message)),
      },
    },
    base: "/bundled/vite/",
  });
  const options = { bundle: true, format: "esm", absWorkingDir: project, logLevel: "silent" } as const;
  const alone = await esbuild({ ...options, entryPoints: { app: "./app.js" }, outdir: "out/esbuild" });
  warnings.push(...alone.warnings.map(({ text }) => text));
  const built = spawnSync(process.execPath, ["build.mjs"], { cwd: project, encoding: "utf8" });
  if (built.status !== 0) throw new Error(`esbuild's recipe failed: ${built.stderr}`);
  warnings.push(...built.stderr.split("\n").filter((line) => line.includes("warning")));
}
