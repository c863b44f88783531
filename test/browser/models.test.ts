// Models in a real browser: fetched once from a hub that is a server on this machine, kept in the origin's storage, read from there without a
// network; cut connections, two tabs at once, a full disk, removal, URLs, dropped files, and the Cache API where there is no private file system.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { embedded } from "../generate/support.js";
import { noWebgpu } from "../support/backends.js";
import { type LocalHub, startHub } from "../hub/local-hub.js";
import { findChromium, howToInstall, startChromium } from "./chromium.js";
import { type RunningServer, startServer } from "./server.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);
const seed = Number(process.env["INSITU_SEED"] ?? 17);

/** The embedded model as a repository of the hub has one of 8 bits. */
const repository = new Map(
  readdirSync(embedded, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = relative(embedded, join(entry.parentPath, entry.name));
      const name = path === join("onnx", "model.onnx") ? "onnx/model_q4.onnx" : path;
      return [name, new Uint8Array(readFileSync(join(embedded, path)))] as const;
    }),
);
const name = "HuggingFaceTB/SmolLM2-135M-Instruct";
const prompt = "Once upon a time";
const told = { maxTokens: 8, temperature: 0 } as const;

interface Library {
  readonly CausalLM: {
    load(
      source: unknown,
      options?: object,
    ): Promise<{
      generate(prompt: string, options: object): { text(): Promise<string> };
      release(): Promise<void>;
    }>;
  };
  readonly models: {
    list(): Promise<{ readonly name: string; readonly bytes: number; readonly complete: readonly string[] }[]>;
    remove(name: string): Promise<unknown>;
    storage(): Promise<{ readonly kind: string; readonly usedBytes: number }>;
    persist(): Promise<boolean>;
  };
}

declare global {
  /** A model that a page has loaded. */
  var held: Awaited<ReturnType<Library["CausalLM"]["load"]>>;
  var insitu: Library;
  var insituWorker: Library;
}

const html = `<!doctype html><title>models</title><link rel="icon" href="data:,"><script type="module">
  import * as insitu from "/dist/browser/insitu.js";
  import * as insituWorker from "/dist/browser/worker.js";
  Object.assign(globalThis, { insitu, insituWorker });
</script>`;

/** Tells a story in a page, by name, with the short name's own options; or what went wrong. */
const tell = (page: Page, source: string, options: object): Promise<string> =>
  page.evaluate(
    async ([from, how, words, wanted]) => {
      const { CausalLM: Model } = globalThis.insitu;
      try {
        const lm = await Model.load(from, how);
        const text = await lm.generate(words, wanted).text();
        await lm.release();
        return text;
      } catch (error) {
        return `${(error as { code?: string }).code}: ${(error as Error).message}`;
      }
    },
    [source, options, prompt, told] as const,
  );

const kept = (page: Page): Promise<{ names: string[]; complete: string[]; kind: string; used: number }> =>
  page.evaluate(async () => {
    const { models } = globalThis.insitu;
    const list = await models.list();
    const { kind, usedBytes } = await models.storage();
    return {
      names: list.map((each) => each.name),
      complete: list.flatMap((each) => each.complete),
      kind,
      used: usedBytes,
    };
  });

describe.skipIf(chromium === undefined)("models in a browser", () => {
  let browser: Browser;
  let server: RunningServer;
  let hub: LocalHub;
  let story: string;
  let context: BrowserContext;
  const closing: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    const lm = await CausalLM.load();
    story = await lm.generate(prompt, told).text();
    await lm.release();
    browser = await startChromium(chromium!);
    hub = await startHub(new Map([[name, repository]]));
    const files = new Map<string, Uint8Array | string>([["/index.html", html]]);
    for (const [path, bytes] of repository) files.set(`/models/story/${path}`, bytes);
    for (const path of ["config.json", "tokenizer.json"]) files.set(`/models/broken/${path}`, repository.get(path)!);
    files.set("/models/broken/onnx/model.onnx", "no model");
    server = await startServer({ headers: {}, folders: { "/dist/": join(root, "dist") }, files });
  });
  beforeEach(async () => {
    await context?.close();
    context = await browser.newContext();
    hub.answer = undefined;
    hub.requests.length = server.requests.length = 0;
  });
  afterAll(async () => {
    for (const close of closing) await close();
    await browser?.close();
    await hub?.close();
    server?.close();
  });

  const visit = async (): Promise<Page> => {
    const page = await context.newPage();
    await page.goto(`${server.base}/index.html`);
    return page;
  };
  const weights = (): string[] => hub.requests.filter((request) => request.includes(".onnx"));

  test("the first visit loads, the second asks for nothing, the third has no network; remove frees", async () => {
    const first = await visit();
    expect(await tell(first, "smollm2-135m", { hub: { hubUrl: hub.url } })).toBe(story);
    expect(weights()).toHaveLength(1);
    expect(await kept(first)).toMatchObject({ names: [name], complete: ["q4"], kind: "opfs" });
    await first.close();
    const asked = hub.requests.length;
    const second = await visit();
    expect(await tell(second, "smollm2-135m", { hub: { hubUrl: hub.url } })).toBe(story);
    expect(hub.requests.length).toBe(asked);
    await second.close();
    const third = await visit();
    await third.route(`${hub.url}/**`, (route) => route.abort());
    expect(await tell(third, name, {})).toBe(story);
    expect(hub.requests.length).toBe(asked);
    const used = (page: Page): Promise<number> =>
      page.evaluate(async () => (await navigator.storage.estimate()).usage ?? 0);
    const before = await used(third);
    expect(before).toBeGreaterThan(10e6);
    await third.evaluate(async () => {
      const { models } = globalThis.insitu;
      await models.remove("smollm2-135m");
    });
    expect(await kept(third)).toMatchObject({ names: [], used: 0 });
    expect(await used(third)).toBeLessThan(before / 10);
  });

  test("downloads that are cut at a random byte resume and are right", async () => {
    const random = seededRandom(seed);
    const page = await visit();
    for (let round = 0; round < (soak ? 20 : 2); round++) {
      hub.requests.length = 0;
      let cuts = 1;
      hub.answer = (path, bytes) =>
        path.endsWith(".onnx") && cuts-- > 0 ? Math.floor(random() * bytes.length) : undefined;
      expect(await tell(page, name, { hub: { hubUrl: hub.url } }), `seed ${seed}, ${round}`).toBe(story);
      expect(weights()).toHaveLength(2);
      expect(weights()[1], `seed ${seed}, ${round}`).toMatch(/ (bytes=\d+-|whole)$/);
      await page.evaluate(async (which) => {
        const { models } = globalThis.insitu;
        await models.remove(which);
      }, name);
    }
  });

  test("a tab that ends in the middle leaves what came: the next goes on from there", async () => {
    const page = await visit();
    hub.answer = (path, bytes, _, response) => {
      if (!path.endsWith(".onnx")) return undefined;
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 9 * 2 ** 20));
      return true;
    };
    void tell(page, name, { hub: { hubUrl: hub.url } }).catch(() => undefined);
    await expect.poll(async () => (await kept(page)).used).toBeGreaterThan(8 * 2 ** 20);
    await page.close();
    hub.answer = undefined;
    hub.requests.length = 0;
    expect(await tell(await visit(), name, { hub: { hubUrl: hub.url } })).toBe(story);
    expect(weights()).toEqual([expect.stringMatching(/ bytes=8388608-$/)]);
  });

  test("two tabs at once download once", async () => {
    const pages = [await visit(), await visit()];
    const texts = await Promise.all(pages.map((page) => tell(page, name, { hub: { hubUrl: hub.url } })));
    expect(texts).toEqual([story, story]);
    expect(weights()).toHaveLength(1);
  });

  test("a damaged file and a page in its place are refused, and nothing of them is kept", async () => {
    const page = await visit();
    hub.answer = (path, bytes, _, response) => {
      if (!path.endsWith(".onnx")) return undefined;
      const damaged = bytes.slice();
      damaged[99] ^= 1;
      response.writeHead(200, { "content-length": bytes.length }).end(damaged);
      return true;
    };
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toMatch(/^download: .* is damaged: its checksum is/);
    expect((await kept(page)).used).toBeLessThan(2e6);
    hub.answer = (path, _, __, response) => {
      if (!path.endsWith(".onnx")) return undefined;
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>log in");
      return true;
    };
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toMatch(/^download: .* is a web page, not the file/);
  });

  test("too little room: told before anything comes; full in the middle: an error with nothing half kept", async () => {
    const page = await visit();
    const session = await context.newCDPSession(page);
    const quota = async (bytes: number): Promise<void> =>
      void (await session.send("Storage.overrideQuotaForOrigin", { origin: server.base, quotaSize: bytes }));
    // Browsers may tell more than they give.
    await page.evaluate(() => {
      navigator.storage.estimate = async () => ({ quota: 6e6, usage: 1e6 });
    });
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toMatch(
      /^download: "HuggingFaceTB.* cannot be written: it needs \S+ MiB more, and the browser's private file system has room for 4\.8 MiB/,
    );
    expect(weights()).toEqual([]);
    await page.evaluate(() => {
      navigator.storage.estimate = async () => ({ quota: 1e12, usage: 0 });
    });
    await quota(5e6);
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toMatch(
      /^download: .* cannot be written: the browser's storage for this page is full: remove a model/,
    );
    expect(await kept(page)).toMatchObject({ names: [], used: 0 });
  });

  test.each(noWebgpu === undefined ? ["wasm", "webgpu"] : ["wasm"])(
    "memoryLimit refuses with numbers before weights are in the page's memory, on %s",
    async (backend) => {
      const answer = await tell(await visit(), name, { backend, memoryLimit: 4e6, hub: { hubUrl: hub.url } });
      expect(answer).toMatch(
        /^out-of-memory: the model's weights take \d+\.\d+ MiB \(\d+ bytes\), and 3\.81 MiB \(4000000 bytes\) of memory are available; /,
      );
    },
  );

  test.skipIf(noWebgpu !== undefined)("a GPU that is lost: the model is loaded again, from storage", async () => {
    const page = await visit();
    const options = { backend: "webgpu", hub: { hubUrl: hub.url } };
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toBe(story);
    await page.evaluate(
      async ([source, how]) => {
        const { CausalLM: Model } = globalThis.insitu;
        globalThis.held = await Model.load(source, how);
      },
      [name, options] as const,
    );
    hub.requests.length = 0;
    const devtools = await browser.newBrowserCDPSession();
    await devtools.send("Browser.crashGpuProcess").catch(() => undefined);
    const lost = await page.evaluate(
      async ([words, wanted]) => {
        const { held } = globalThis;
        try {
          return await held.generate(words, wanted).text();
        } catch (error) {
          await held.release();
          return `${(error as { code?: string }).code}: ${(error as Error).stack}`;
        }
      },
      [prompt, told] as const,
    );
    expect(lost).toMatch(/^device-lost: /);
    await expect.poll(() => tell(page, name, options)).toBe(story);
    expect(hub.requests).toEqual([]);
  });

  test("a folder by URL is kept too, unless store is false", async () => {
    const first = await visit();
    const asked = (): string[] => server.requests.filter((request) => request.startsWith("/models/"));
    expect(await tell(first, "/models/story", { variant: "q4", store: false })).toBe(story);
    expect(await kept(first)).toMatchObject({ names: [] });
    expect(await tell(first, "/models/story", { variant: "q4" })).toBe(story);
    expect(await kept(first)).toMatchObject({ names: [`${server.base}/models/story`] });
    await first.close();
    server.requests.length = 0;
    const second = await visit();
    expect(await tell(second, "/models/story", { variant: "q4" })).toBe(story);
    expect(asked()).toEqual([]);
    await second.evaluate(async (url) => {
      const { models } = globalThis.insitu;
      await models.remove(url);
    }, `${server.base}/models/story`);
    expect(await kept(second)).toMatchObject({ names: [], used: 0 });
    // What is refused is not kept: another model may lie there the next time.
    expect(await tell(second, "/models/broken", {})).toMatch(/^invalid-model: /);
    expect(await kept(second)).toMatchObject({ names: [], used: 0 });
  });

  test("files and folders that are dropped on a page", async () => {
    const page = await visit();
    const texts = await page.evaluate(
      async ([paths, words, wanted]) => {
        const { CausalLM: Model } = globalThis.insitu;
        const files = await Promise.all(
          paths.map(async (path) => {
            const bytes = await (await fetch(`/models/story/${path}`)).arrayBuffer();
            return new File([bytes], path.split("/").at(-1)!.replace("_q4", ""));
          }),
        );
        const top = await navigator.storage.getDirectory();
        const folder = await top.getDirectoryHandle("dropped", { create: true });
        for (const file of files) {
          const writable = await (await folder.getFileHandle(file.name, { create: true })).createWritable();
          await writable.write(file);
          await writable.close();
        }
        const told: string[] = [];
        for (const source of [files, folder]) {
          const lm = await Model.load(source);
          told.push(await lm.generate(words, wanted).text());
          await lm.release();
        }
        told.push(
          await Model.load(files.slice(0, 1)).then(
            () => "",
            (error: Error) => error.message,
          ),
        );
        return told;
      },
      [[...repository.keys()], prompt, told] as const,
    );
    expect(texts.slice(0, 2)).toEqual([story, story]);
    expect(texts[2]).toMatch(/"dropped files" (holds no|has no)/);
  });

  test("the Cache API where there is no private file system; in a worker; persist", async () => {
    const page = await context.newPage();
    await page.addInitScript(() => {
      Object.defineProperty(StorageManager.prototype, "getDirectory", { value: undefined });
    });
    await page.goto(`${server.base}/index.html`);
    expect(await tell(page, name, { hub: { hubUrl: hub.url } })).toBe(story);
    expect(await kept(page)).toMatchObject({ names: [name], kind: "cache" });
    hub.requests.length = 0;
    expect(await tell(page, name, {})).toBe(story);
    expect(hub.requests).toEqual([]);
    const inWorker = await visit();
    const text = await inWorker.evaluate(
      async ([from, hubUrl, words, wanted]) => {
        const { CausalLM: Model } = globalThis.insituWorker;
        const { models } = globalThis.insitu;
        const lm = await Model.load(from, { hub: { hubUrl } });
        const made = await lm.generate(words, wanted).text();
        await lm.release();
        return [made, (await models.list()).length, typeof (await models.persist())];
      },
      [name, hub.url, prompt, told] as const,
    );
    expect(text).toEqual([story, 1, "boolean"]);
  });
});
