// transformers.js's build for browsers on insitu in a real Chromium, by the recipes of docs/onnxruntime.md: a page without a bundler, Vite,
// esbuild. The texts are those that the same models give in Node, on onnxruntime-node.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { build as viteBuild } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { embeddedModel } from "../../src/platform/embedded-model.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { isolation, type RunningServer, startServer } from "../browser/server.js";
import { writeEmbedded, writeExported } from "./folders.js";
import { missing, onInsitu, onOnnxruntime, peers, runClient } from "./project.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));
const page = readFileSync(join(root, "docs/onnxruntime.md"), "utf8");
const chromium = findChromium();
/** Bundlers and the GPU in a soak alone. */
const skipped = missing ?? (chromium === undefined ? howToInstall : undefined);
if (skipped !== undefined) console.log(`transformers.js is not tried in a browser: ${skipped}`);

/** The code of docs/onnxruntime.md that begins so. */
function recipe(language: string, start: string): string {
  const found = [...page.matchAll(/```(\w+)\n(.*?)```/gs)].find(
    ([, written, text]) => written === language && text.startsWith(start),
  );
  if (found === undefined) throw new Error(`docs/onnxruntime.md has no ${language} that begins with ${start}`);
  return found[2];
}

/** What a page was told. */
interface Told {
  readonly text: string;
  readonly streamed: string;
  readonly presents: unknown;
  readonly backend: string;
}

const html = (before: string, script: string): string =>
  `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">${before}<script type="module" src="${script}"></script>`;

/** Bundles the project's page by the recipes. */
async function bundle(project: string): Promise<void> {
  symlinkSync(join(root, "node_modules/vite"), join(project, "node_modules/vite"));
  writeFileSync(join(project, "vite.config.js"), recipe("js", "// vite.config.js"));
  await viteBuild({
    root: project,
    configFile: join(project, "vite.config.js"),
    logLevel: "silent",
    base: "/vite/",
    build: {
      outDir: "out/vite",
      rolldownOptions: { input: { app: join(project, "app.js") }, output: { entryFileNames: "[name].js" } },
    },
  });
  writeFileSync(join(project, "build.mjs"), recipe("js", "// build.mjs"));
  symlinkSync(join(root, "node_modules/esbuild"), join(project, "node_modules/esbuild"));
  const built = spawnSync(process.execPath, ["build.mjs"], { cwd: project, encoding: "utf8" });
  if (built.status !== 0) throw new Error(`esbuild's recipe failed: ${built.stderr}`);
}

describe.skipIf(skipped !== undefined)("transformers.js in Chromium", () => {
  let [folder, browser, server]: [string, Browser | undefined, RunningServer | undefined] = ["", undefined, undefined];
  let texts: Readonly<Record<string, string>> = {};
  const prompt = "w5 w17 w3 w40 w8";
  const names = ["llama_op20_eager", "embedded"];
  const own = "own";

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "insitu-pages-"));
    const [models, project] = [join(folder, "models"), join(folder, "project")];
    writeExported(models, names[0]);
    writeEmbedded(models, names[1], "GroupQueryAttention", 0);
    cpSync(embeddedModel(), join(models, own), { recursive: true });
    // Other runtimes do not know the operators of the package's own file.
    texts = {
      ...runClient<typeof texts>(onOnnxruntime, "text.mjs", models, prompt, ...names),
      ...runClient<typeof texts>(onInsitu, "text.mjs", models, prompt, own),
    };
    // A project as npm would install it: bundlers look for packages from where a file really is.
    const transformers = "node_modules/@huggingface/transformers";
    mkdirSync(join(project, transformers, "dist"), { recursive: true });
    for (const file of ["package.json", "dist/transformers.web.js"])
      cpSync(join(peers, transformers, file), join(project, transformers, file));
    symlinkSync(root, join(project, "node_modules/insitu"));
    cpSync(join(here, "app.js"), join(project, "app.js"));
    writeFileSync(join(project, "package.json"), '{ "type": "module" }');
    if (soak) await bundle(project);
    server = await startServer({
      headers: isolation,
      folders: {
        "/node_modules/insitu/": `${root}/`,
        "/node_modules/@huggingface/": join(peers, "node_modules/@huggingface"),
        "/models/": models,
        "/vite/": join(project, "out/vite"),
        "/esbuild/": join(project, "public"),
      },
      files: new Map([
        ["/app.js", readFileSync(join(here, "app.js"), "utf8")],
        ["/plain.html", html(recipe("html", '<script type="importmap">'), "/app.js")],
        ["/vite.html", html("", "/vite/app.js")],
        ["/esbuild.html", html("", "/esbuild/app.js")],
      ]),
    });
    browser = await startChromium(chromium!);
  });
  afterAll(async () => {
    await browser?.close();
    server?.close();
    rmSync(folder, { recursive: true });
  });

  async function generate(path: string, name: string, options: object = {}): Promise<Told> {
    const tab = await browser!.newPage();
    const problems: string[] = [];
    tab.on("pageerror", (error) => problems.push(String(error)));
    tab.on("console", (message) => (message.type() === "error" ? problems.push(message.text()) : undefined));
    try {
      await tab.goto(`${server!.base}${path}`);
      await tab.waitForFunction(() => "generateText" in globalThis).catch(() => undefined);
      const told = await tab.evaluate(
        async (given) =>
          await (Reflect.get(globalThis, "generateText") as (...args: readonly unknown[]) => Promise<Told>)(...given),
        [name, prompt, options],
      );
      expect(problems).toEqual([]);
      return told;
    } catch (error) {
      throw new Error(`${path}: ${String(error)} ${problems.join("\n")}`, { cause: error });
    } finally {
      await tab.close();
    }
  }

  test.each(soak ? ["/plain.html", "/vite.html", "/esbuild.html"] : ["/plain.html"])(
    "%s: the same text as in Node",
    async (path) => {
      for (const name of path === "/plain.html" ? [...(soak ? names : names.slice(0, 1)), own] : names.slice(0, 1)) {
        const { text, streamed, presents, backend } = await generate(path, name);
        expect(text).toBe(texts[name]);
        expect(text.endsWith(streamed)).toBe(true);
        expect(streamed.length).toBeGreaterThan(10);
        expect(backend).toBe("wasm");
        expect(presents).toMatchObject({ kept: true, runs: { started: 1, continued: 11, copied: 0 } });
      }
      // Nothing is asked of anybody else's server.
      expect(server!.requests.filter((request) => request.endsWith(" 404") && !request.startsWith("/models/"))).toEqual(
        [],
      );
    },
  );

  test.runIf(soak)("on WebGPU: the same text", async () => {
    const { text, presents, backend } = await generate("/plain.html", names[0], { device: "webgpu" });
    expect(text).toBe(texts[names[0]]);
    expect(backend).toBe("webgpu");
    expect(presents).toMatchObject({ kept: true, runs: { started: 1, continued: 11, copied: 0 } });
  });
});
