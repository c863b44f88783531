// A page in a real Chromium that decodes on WebGPU: the text is WASM's. The tests have a small decoder without subgroups; the soak has the
// embedded model too, with subgroups and without.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { soak } from "../support/soak.js";
import type { Browser } from "playwright-core";
import { CausalLM } from "../../src/entry/node.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { writeModel } from "../../src/onnx/write.js";
import { findChromium, howToInstall, startChromium } from "../browser/chromium.js";
import { type RunningServer, startServer } from "../browser/server.js";
import { embedded, hubFolder } from "../generate/support.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const chromium = findChromium();
if (chromium === undefined) console.log(howToInstall);

const page = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import { CausalLM } from "/dist/browser/insitu.js";
globalThis.write = async (model, options, generating) => {
  const lm = await CausalLM.load(model, options);
  const generation = lm.generate("Once upon a time", generating);
  const text = await generation.text();
  const told = lm.session.explain();
  await lm.release();
  return { text, told, inFlight: generation.summary.tokensInFlight };
};
</script>`;

interface Written {
  readonly text: string;
  readonly told: string;
  readonly inFlight: number;
}

describe.skipIf(chromium === undefined)("in a browser", () => {
  let browser: Browser;
  let server: RunningServer;
  const small = hubFolder("llama", {
    "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
    "generation_config.json": { eos_token_id: 256 },
  });
  beforeAll(async () => {
    server = await startServer({
      headers: {},
      folders: { "/dist/": `${root}dist/`, "/embedded/": embedded, "/small/": small.path },
      files: new Map([["/index.html", page]]),
    });
    browser = await startChromium(chromium!);
  });
  afterAll(async () => {
    await browser.close();
    server.close();
    small.remove();
  });

  const models = { small: small.path, ...(soak ? { embedded } : {}) };
  test.each(Object.entries(models))("the text of the %s model is WASM's", async (name, folder) => {
    // Four at once: by itself a browser on SwiftShader is too slow for series.
    const generating = { maxTokens: soak ? 64 : 14, temperature: 0, tokensAtOnce: 4 };
    const lm = await CausalLM.load(folder, { backend: "wasm" });
    const expected = await lm.generate("Once upon a time", generating).text();
    await lm.release();
    const opened = await browser.newPage();
    const problems: string[] = [];
    opened.on("pageerror", (error) => problems.push(String(error)));
    await opened.goto(`${server.base}/index.html`);
    await opened.waitForFunction(() => "write" in globalThis);
    for (const webgpu of soak ? [{}, { subgroups: false }] : [{ subgroups: false }]) {
      const { text, told, inFlight } = await opened.evaluate(
        (given) => (globalThis as { write?(...given: unknown[]): Promise<Written> }).write!(...given),
        [`/${name}/`, { backend: "webgpu", webgpu }, generating] as const,
      );
      expect(text).toBe(expected);
      expect(inFlight).toBe(8);
      expect(told).toMatch(/CachedAttention .*by attentionStepAtOnce.*; writes past\S+ in place/);
    }
    expect(problems).toEqual([]);
    await opened.close();
  });
});
