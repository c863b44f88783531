// What a page takes while it loads a model of 280 MB that is made by code: the most that its process ever has resident beyond what it had before, as the
// system counts it. Chromium is started without anyone who watches it: for those it keeps up to 200 MB of what comes over the net. What SwiftShader keeps
// for a device lies in another process.
import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { smallSizes } from "../../tools/demo/decoder.js";
import { noWebgpu } from "../support/backends.js";
import { writeRepeatedDecoder } from "../support/repeated-decoder.js";
import { findChromium } from "./chromium.js";
import { isolation } from "./server.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const chromium = findChromium();
const folder = mkdtempSync(join(tmpdir(), "insitu-page-"));
const sizes = {
  ...smallSizes,
  layers: 16,
  hidden: 1024,
  heads: 8,
  headSize: 128,
  intermediate: 4096,
  vocabulary: 1024,
};

/** A page that loads the model, reads a prompt, of one token where a program plays the GPU, and tells the logits, or what went wrong. */
const html = `<!doctype html><title>memory</title><link rel="icon" href="data:,"><script type="module">
  import { InferenceSession, Tensor } from "/dist/browser/insitu.js";
  const ids = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  try {
    await fetch("/begins");
    const options = JSON.parse(decodeURIComponent(location.search.slice(1)));
    const session = await InferenceSession.create("/model/model.onnx", options);
    const state = session.createState({ dims: { batch: 1, capacity: 8 } });
    const prompt = options.backend === "webgpu" && !${soak} ? [3] : [3, 1, 4];
    const fed = { input_ids: ids(prompt), position_ids: ids(prompt.map((_, at) => at)) };
    const { logits } = await session.run(fed, { state });
    await fetch("/ends", { method: "POST", body: JSON.stringify([...logits.data.slice(-8)]) });
  } catch (error) {
    await fetch("/ends", { method: "POST", body: JSON.stringify(String(error)) });
  }
</script>`;

const statusOf = (pid: number | string, what: string): number =>
  Number(new RegExp(`${what}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);

/** The processes of pages below a process. */
function pagesBelow(pid: number): number[] {
  const isBelow = (at: number): boolean => at === pid || (at > 1 && isBelow(statusOf(at, "PPid")));
  return readdirSync("/proc")
    .map(Number)
    .filter((each) => {
      try {
        return each > 0 && readFileSync(`/proc/${each}/cmdline`, "utf8").includes("--type=renderer") && isBelow(each);
      } catch {
        // It has ended.
        return false;
      }
    });
}

const mostResident = (pid: number): number => statusOf(pid, "VmHWM") * 1024;

function sendFile(path: string, range: string | undefined, response: ServerResponse): void {
  const { size } = statSync(path);
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
  const start = Number(from ?? 0);
  const end = to === undefined || to === "" ? size - 1 : Number(to);
  response.writeHead(from === undefined ? 200 : 206, {
    ...isolation,
    "content-type": extname(path) === ".js" ? "text/javascript" : "application/octet-stream",
    "content-length": end - start + 1,
    ...(from === undefined ? {} : { "content-range": `bytes ${start}-${end}/${size}` }),
  });
  createReadStream(path, { start, end }).pipe(response);
}

describe.skipIf(chromium === undefined || process.platform !== "linux")("memory of a page", () => {
  let bytes = 0;

  beforeAll(() => {
    writeRepeatedDecoder(folder, sizes, { weights: { bits: 8, blockSize: 32 } });
    bytes = readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** The most that the page's process takes beyond what it had before, as a share of the files. */
  async function shareOf(options: object): Promise<number> {
    const profile = mkdtempSync(join(tmpdir(), "insitu-profile-"));
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const query = encodeURIComponent(JSON.stringify(options));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/?${query}`;
    const args = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-unsafe-webgpu", "--no-first-run"];
    // Without a port for those who watch, a browser without a screen ends once the page is there.
    const child = spawn(chromium!, [...args, "--remote-debugging-port=0", `--user-data-dir=${profile}`, url], {
      stdio: "ignore",
    });
    const over = new Promise((resolve) => child.on("exit", resolve));
    try {
      return await new Promise<number>((resolve, reject) => {
        child.on("error", reject);
        child.on("exit", () => reject(new Error("Chromium ended")));
        let before: readonly (readonly [pid: number, bytes: number])[] = [];
        server.on("request", (request, response) => {
          const { pathname } = new URL(request.url ?? "/", url);
          if (pathname === "/") response.writeHead(200, { ...isolation, "content-type": "text/html" }).end(html);
          else if (pathname === "/begins") {
            before = pagesBelow(child.pid!).map((pid) => [pid, mostResident(pid)] as const);
            response.writeHead(200, isolation).end();
          } else if (pathname === "/ends") {
            const taken = Math.max(...before.map(([pid, start]) => mostResident(pid) - start));
            let body = "";
            request.on("data", (piece) => (body += String(piece)));
            request.on("end", () => {
              const logits = JSON.parse(body) as unknown;
              if (!Array.isArray(logits) || !logits.every(Number.isFinite)) return reject(new Error(body));
              console.log(`${JSON.stringify(options)}: ${bytes} bytes of files, at most ${taken} taken by the page`);
              resolve(taken / bytes);
            });
          } else if (pathname.startsWith("/model/"))
            sendFile(join(folder, pathname.slice(7)), request.headers.range, response);
          else sendFile(join(root, pathname), request.headers.range, response);
        });
      });
    } finally {
      child.kill();
      await over;
      server.closeAllConnections();
      server.close();
      // Its other processes end behind it, and write until then.
      await rm(profile, { recursive: true, force: true, maxRetries: 40, retryDelay: 100 });
    }
  }

  /** The least of up to three loads: when the collector has its turn is the machine's affair, what a page holds on to is there in each. */
  async function leastShareOf(options: object, enough: number): Promise<number> {
    let least = Infinity;
    for (let load = 0; load < 3 && least >= enough; load++) least = Math.min(least, await shareOf(options));
    return least;
  }

  test("on WASM, weights lie once in the memory that they are computed in", async () => {
    expect(await leastShareOf({ backend: "wasm", threads: 2 }, 1.3)).toBeLessThan(1.3);
  });

  test.skipIf(noWebgpu !== undefined)("on WebGPU, weights go through the page in pieces", async () => {
    expect(await leastShareOf({ backend: "webgpu" }, 0.4)).toBeLessThan(0.4);
  });
});
