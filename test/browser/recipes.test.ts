// The page of docs/browsers.md that stays responsive, by each of the recipes: Vite 7 and 8, while developing and built, esbuild, no bundler; with
// the package insitu and with insitu-web. All pages are open at once, each on its own server. The slower ones in a soak alone; what
// test/browser/browser.test.ts builds with Vite 8 and esbuild runs always.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { hubFolder } from "../generate/support.js";
import { copyPackage } from "../support/copied-package.js";
import { findChromium, howToInstall, startChromium } from "./chromium.js";
import { recipe } from "./recipes.js";
import { isolation, startServer } from "./server.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);
const html = (script: string): string =>
  `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body></body><script type="module" src="${script}"></script>`;

/** A page that is served, and what ends its server. */
interface Served {
  readonly address: string;
  close(): Promise<void> | void;
}

const closing: (() => Promise<void> | void)[] = [];
const model = hubFolder("llama_op24");
closing.push(() => model.remove());

/** A project with the recipe's page, a package and the tools that it needs. */
function makeProject(which: "insitu" | "insitu-web", tools: Readonly<Record<string, string>> = {}): string {
  const project = mkdtempSync(join(tmpdir(), "insitu-recipe-"));
  closing.push(() => rmSync(project, { recursive: true }));
  copyPackage(project, which);
  for (const [name, source] of Object.entries(tools))
    symlinkSync(join(root, "node_modules", source), join(project, "node_modules", name), "dir");
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module", private: true }));
  writeFileSync(join(project, "index.html"), html("/main.js"));
  writeFileSync(join(project, "main.js"), recipe("js", "// main.js"));
  writeFileSync(join(project, "vite.config.js"), recipe("js", "// vite.config.js"));
  mkdirSync(join(project, "public/models"), { recursive: true });
  cpSync(model.path, join(project, "public/models/story"), { recursive: true });
  return project;
}

type Vite = Pick<typeof import("vite"), "build" | "createServer" | "preview">;

const viteOf = async (version: 7 | 8): Promise<Vite> =>
  version === 8 ? import("vite") : ((await import("vite-7")) as object as Vite);

async function develop(version: 7 | 8): Promise<Served> {
  const project = makeProject("insitu", { vite: version === 8 ? "vite" : "vite-7" });
  const { createServer } = await viteOf(version);
  const configFile = join(project, "vite.config.js");
  const server = await createServer({ root: project, configFile, logLevel: "silent", server: { host: "127.0.0.1" } });
  await server.listen();
  return { address: server.resolvedUrls!.local[0], close: () => server.close() };
}

async function buildWithVite(version: 7 | 8, which: "insitu" | "insitu-web"): Promise<Served> {
  const project = makeProject(which, { vite: version === 8 ? "vite" : "vite-7" });
  const { build, preview } = await viteOf(version);
  const configFile = join(project, "vite.config.js");
  await build({ root: project, configFile, logLevel: "silent", build: { chunkSizeWarningLimit: 5_000 } });
  const server = await preview({ root: project, configFile, logLevel: "silent", preview: { host: "127.0.0.1" } });
  return { address: server.resolvedUrls!.local[0], close: () => server.close() };
}

async function buildWithEsbuild(): Promise<Served> {
  const project = makeProject("insitu-web", { esbuild: "esbuild" });
  writeFileSync(join(project, "app.js"), recipe("js", "// main.js"));
  writeFileSync(join(project, "build.mjs"), recipe("js", "// build.mjs"));
  const { status, stderr } = spawnSync(process.execPath, ["build.mjs"], { cwd: project, encoding: "utf8" });
  if (status !== 0) throw new Error(`esbuild's recipe failed: ${stderr}`);
  const files = new Map([["/index.html", html("/app.js")]]);
  const served = await startServer({ headers: isolation, folders: { "/": join(project, "public") }, files });
  return { address: `${served.base}/index.html`, close: () => served.close() };
}

/** The bundle that comes along, imported by its URL. */
async function plain(): Promise<Served> {
  const project = makeProject("insitu-web");
  const code = recipe("js", "// main.js").replace('"insitu/worker"', '"/node_modules/insitu/dist/browser/worker.js"');
  const files = new Map([
    ["/index.html", html("/main.js")],
    ["/main.js", code],
  ]);
  const folders = { "/models/": join(project, "public/models"), "/": project };
  const served = await startServer({ headers: isolation, folders, files });
  return { address: `${served.base}/index.html`, close: () => served.close() };
}

const forms: Readonly<Record<string, () => Promise<Served>>> = {
  "a page without a bundler": plain,
  "Vite 7, while developing": () => develop(7),
  "insitu-web, built with Vite 8": () => buildWithVite(8, "insitu-web"),
  ...(soak
    ? {
        "Vite 8, while developing": () => develop(8),
        "Vite 7, built": () => buildWithVite(7, "insitu"),
        "Vite 8, built": () => buildWithVite(8, "insitu"),
        esbuild: buildWithEsbuild,
      }
    : {}),
};

interface Told {
  readonly text: string | null;
  readonly workers: number;
  readonly problems: readonly string[];
  /** Memories for kernels that the page's own thread has made. */
  readonly memories: number;
}

/** Opens the page and waits until it has told its story. */
async function tell(browser: Browser, { address }: Served): Promise<Told> {
  const context = await browser.newContext();
  const page: Page = await context.newPage();
  const problems: string[] = [];
  let workers = 0;
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("worker", () => workers++);
  page.setDefaultTimeout(240_000);
  // Runs in pages, not in their workers.
  await page.addInitScript(() => {
    const { Memory } = WebAssembly;
    const counted = globalThis as { memories?: number };
    counted.memories = 0;
    WebAssembly.Memory = class extends Memory {
      constructor(descriptor: WebAssembly.MemoryDescriptor) {
        super(descriptor);
        counted.memories!++;
      }
    };
  });
  await page.goto(address);
  await page.waitForFunction(() => document.title === "told");
  const memories = await page.evaluate(() => (globalThis as { memories?: number }).memories!);
  const text = await page.evaluate(() => document.body.textContent);
  await context.close();
  return { text, workers, problems, memories };
}

describe.skipIf(chromium === undefined)("the page of docs/browsers.md", () => {
  let expected: string;
  const told = new Map<string, Promise<Told>>();

  beforeAll(async () => {
    const lm = await CausalLM.load(model.path, { threads: 1 });
    const prompt = "Once upon a time";
    expected = prompt + (await lm.generate(prompt, { maxTokens: 40, seed: 1 }).text());
    await lm.release();
    const browser = await startChromium(chromium!);
    closing.push(() => browser.close());
    for (const [name, serve] of Object.entries(forms)) {
      const telling = serve().then((served) => {
        closing.push(() => served.close());
        return tell(browser, served);
      });
      // Heard where the form's own test asks for it.
      telling.catch(() => undefined);
      told.set(name, telling);
    }
  });
  afterAll(async () => {
    await Promise.allSettled(told.values());
    for (const close of closing.toReversed()) await close();
  });

  test.each(Object.keys(forms))("%s", async (name) => {
    const { text, workers, problems, memories } = await told.get(name)!;
    expect(problems).toEqual([]);
    expect(text).toBe(expected);
    // The model's worker, and at least one for its kernels.
    expect(workers).toBeGreaterThan(1);
    // The page's own thread computes nothing.
    expect(memories).toBe(0);
  });
});
