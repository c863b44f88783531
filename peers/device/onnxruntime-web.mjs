// onnxruntime-web's WebGPU provider in a headless Chromium as a decoder, for `insitu bench --backend webgpu`.
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { delimiter, dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "./serve.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const contentTypes = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const page = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import * as ort from "/ort/ort.webgpu.min.mjs";
import { OnnxruntimeDecoder } from "/peer/onnxruntime-decoder.mjs";
ort.env.wasm.wasmPaths = "/ort/";
let decoder;
globalThis.adapter = async () => {
  const found = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  return found && { name: found.info.description || found.info.vendor, software: found.info.isFallbackAdapter };
};
globalThis.open_ = async ({ sizes, type }) => {
  decoder = await OnnxruntimeDecoder.create(ort, sizes, type, (options) =>
    ort.InferenceSession.create("/model/next.onnx", {
      ...options,
      externalData: [{ path: "model.onnx.data", data: "/model/model.onnx.data" }],
    }));
};
globalThis.ask = (call, args) => decoder[call](...args);
</script>`;

/** Serves folders by the first part of the path, on a port of this machine alone. */
async function serveFolders(folders) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    if (path === "/") return response.writeHead(200, { "content-type": "text/html" }).end(page);
    const [, first, ...rest] = path.split("/");
    const file = folders[first] && join(folders[first], normalize(`/${rest.join("/")}`));
    if (!file || !statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    const type = contentTypes[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-length": statSync(file).size });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const chromiumPath =
  process.env.CHROMIUM ??
  [...(process.env.PATH ?? "").split(delimiter), "/usr/bin"]
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find(existsSync);

const usual = ["--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--no-first-run", "--disable-background-networking"];
/** With the machine's GPU, and with the program that plays one. */
const ways = [[...usual, "--enable-features=Vulkan", "--ignore-gpu-blocklist"], [...usual, "--disable-gpu"]];

let server;
let browser;
let opened;
serve({
  async open({ folder, sizes, type, software }) {
    const { chromium } = createRequire(join(here, "../../package.json"))("playwright-core");
    const ort = dirname(createRequire(import.meta.url).resolve("onnxruntime-web"));
    server = await serveFolders({ ort, peer: here, model: folder });
    for (const args of software ? ways.slice(1) : ways) {
      browser = await chromium.launch({ executablePath: chromiumPath, args });
      opened = await browser.newPage();
      await opened.goto(`http://127.0.0.1:${server.address().port}/`);
      await opened.waitForFunction(() => "ask" in globalThis);
      const adapter = await opened.evaluate(() => globalThis.adapter());
      if (adapter && (software || !adapter.software)) {
        await opened.evaluate((given) => globalThis.open_(given), { sizes, type });
        return;
      }
      await browser.close();
    }
    throw new Error(`${chromiumPath} finds no GPU`);
  },
  ...Object.fromEntries(
    ["decode", "prefill", "next"].map((call) => [
      call,
      (...args) => opened.evaluate(([asked, given]) => globalThis.ask(asked, given), [call, args]),
    ]),
  ),
  async stop() {
    await browser?.close();
    server?.close();
    server?.closeAllConnections();
  },
});
