// What a page is told where a model is not where it looks: on the page's own thread and through insitu/worker, by the bundle that comes along.
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findChromium, howToInstall, startChromium } from "./chromium.js";
import { type RunningServer, startServer } from "./server.js";

const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

const page = '<!doctype html><title>an application</title><link rel="icon" href="data:,">';
const harness = `<script type="module">
  globalThis.refusal = async (entry, call, source) => {
    const { CausalLM, InferenceSession, InsituError } = await import("/dist/" + entry + ".js");
    try {
      await (call === "load" ? CausalLM.load(source ?? undefined) : InferenceSession.create(source));
    } catch (error) {
      return (error instanceof InsituError ? error.code : String(error)) + ": " + error.message;
    }
    return "nothing was refused";
  };
</script>`;

describe.skipIf(chromium === undefined)("in Chromium", () => {
  let browser: Browser;
  let opened: Page;
  let own: RunningServer;
  /** Another origin, which lets nobody read. */
  let other: RunningServer;

  beforeAll(async () => {
    const dist = fileURLToPath(new URL("../../dist/browser", import.meta.url));
    const fallback = ["config.json", "tokenizer.json", "model.onnx", "onnx/model.onnx"];
    const files = new Map([
      ["/index.html", page + harness],
      // As a server of a single-page application answers: a page for every path.
      ...fallback.map((name) => [`/app/${name}`, page] as const),
      ["/broken/tokenizer.json", "{ not JSON"],
      ["/broken/onnx/model.onnx", "no model"],
    ]);
    own = await startServer({ headers: {}, folders: { "/dist/": dist }, files, types: { "/app/": "text/html" } });
    other = await startServer({ headers: {}, folders: {}, files });
    browser = await startChromium(chromium!);
    opened = await browser.newPage();
    await opened.goto(`${own.base}/index.html`);
  });
  afterAll(async () => {
    await browser?.close();
    own?.close();
    other?.close();
  });

  /** `code: message` of what loading is refused with. */
  const refusal = (entry: string, call: string, source?: string): Promise<string> =>
    opened.evaluate(
      (given) => (globalThis as { refusal?: (...given: unknown[]) => Promise<string> }).refusal!(...given),
      [entry, call, source],
    );

  test.each(["insitu", "worker"] as const)("%s", async (entry) => {
    const load = (source?: string): Promise<string> => refusal(entry, "load", source);
    const create = (source?: string): Promise<string> => refusal(entry, "create", source);
    expect(await load()).toMatch(
      /^invalid-argument: CausalLM\.load needs a model's name or the URL of its folder: .*models\/embedded/,
    );
    // A name that no folder of this site has is asked of the hub, which is out of reach here.
    expect(await load("tales/small")).toMatch(
      /^download: "tales\/small" is (no folder, and the hub cannot be reached: |neither a folder nor a model)/,
    );
    expect(await load("/app")).toMatch(
      /^invalid-model: "\/app" holds no language model: .*its server answered with a web page/,
    );
    expect(await load("/broken")).toMatch(/^invalid-model: \/broken\/tokenizer\.json is not JSON/);
    expect(await load(`${other.base}/app`)).toMatch(
      /^invalid-argument: .*(?:genai_config|tokenizer)\.json cannot be fetched: nothing answers there, or its server does not allow pages of http:\S+ to read it \(the header Access-Control-Allow-Origin\)/,
    );
    expect(await create("/app/model.onnx")).toMatch(/^invalid-model: .*app\/model\.onnx is an HTML page/);
    expect(await create("/none.onnx")).toMatch(
      /^invalid-argument: http:\S+none\.onnx cannot be fetched: it answered 404 Not Found$/,
    );
    expect(await create(`${other.base}/model.onnx`)).toMatch(/^invalid-argument: .*Access-Control-Allow-Origin/);
  });
});
