/** The web platform over a local server: ranges where the server has them, whole bodies where not. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CausalLM } from "../../src/entry/web.js";
import { buildModel, initializer } from "../../src/onnx/build.js";
import { loadExternalData } from "../../src/onnx/external.js";
import { loadModel } from "../../src/onnx/load.js";
import type { Model } from "../../src/onnx/model.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { writeModel } from "../../src/onnx/write.js";
import { tensorBytes } from "../../src/onnx/write-tensor.js";
import { urlBeside, webPlatform } from "../../src/platform/web.js";
import { expectError, expectRejection } from "./support.js";

const ramp = (length: number, start: number): Float32Array => Float32Array.from({ length }, (_, i) => start + i);
const source = buildModel({
  opset: 24,
  initializers: [
    initializer("a", "float32", ramp(5000, 1)),
    initializer("b", "float32", ramp(600_000, 2)),
    initializer("c", "float32", ramp(4000, 3)),
  ],
});
const { model, pieces } = moveToExternalData(source, { location: "weights #1.bin", threshold: 8 });
const files: Readonly<Record<string, Uint8Array>> = {
  "/models/model.onnx": writeModel(model),
  "/models/weights%20%231.bin": concatenate(pieces),
  "/models/empty.bin": new Uint8Array(),
};

let server: Server;
let base: string;
let ranges = true;
const requests: string[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    const bytes = files[request.url ?? ""];
    requests.push(`${request.url} ${request.headers.range ?? "whole"}`);
    if (request.url?.startsWith("/models/alias"))
      return void response.writeHead(302, { location: "/models/weights%20%231.bin" }).end();
    if (request.url?.startsWith("/app/"))
      return void response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>app</title>");
    if (request.url === "/called-page.json")
      return void response.writeHead(200, { "content-type": "text/html" }).end('{ "none": true }');
    if (request.method === "HEAD" && request.url === "/get-only.json") return void response.writeHead(405).end();
    if (request.url === "/get-only.json") return void response.writeHead(200).end("{}");
    if (bytes === undefined) return void response.writeHead(404).end();
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    if (!ranges || range === null) return void response.writeHead(200, { "content-length": bytes.length }).end(bytes);
    const start = Number(range[1]);
    const end = range[2] === "" ? bytes.length : Number(range[2]) + 1;
    if (start >= bytes.length) return void response.writeHead(416).end();
    response
      .writeHead(206, { "content-range": `bytes ${start}-${end - 1}/${bytes.length}` })
      .end(bytes.subarray(start, end));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests.length = 0;
});

describe("webPlatform", () => {
  for (const withRanges of [true, false]) {
    it(`loads a model and its weights ${withRanges ? "in ranges" : "whole"}`, async () => {
      ranges = withRanges;
      const reports: (readonly [number, number])[] = [];
      const onProgress = (...report: readonly [number, number]): void => void reports.push(report);
      const loaded = await loadModel(`${base}/models/model.onnx`, webPlatform, { onProgress });
      const size = files["/models/model.onnx"].length;
      const total = size + 4 * (5000 + 600_000 + 4000);
      expect([reports[0], reports.at(-1)]).toEqual([
        [0, size],
        [total, total],
      ]);
      loaded.graph.initializers.forEach((tensor, i) => {
        expect(Buffer.compare(tensorBytes(tensor), tensorBytes(source.graph.initializers[i])), tensor.name).toBe(0);
      });
      const data = requests.filter((request) => request.includes("weights"));
      // One request tells the size, one more serves all tensors.
      expect(data).toHaveLength(withRanges ? 2 : 1);
    });
  }

  it("asks again for what lies far apart or behind", async () => {
    ranges = true;
    const file = await webPlatform.openBeside(`${base}/models/model.onnx`, "weights #1.bin");
    const bytes = files["/models/weights%20%231.bin"];
    requests.length = 0;
    for (const offset of [0, 100, 2_000_000, 50, 10_000]) {
      const target = new Uint8Array(16);
      await file.read(offset, target);
      expect(target).toEqual(bytes.slice(offset, offset + 16));
    }
    const end = bytes.length - 1;
    const asked = (): readonly string[] => requests.map((request) => request.split(" ")[1]);
    expect(asked()).toEqual([0, 2_000_000, 50].map((offset) => `bytes=${offset}-${end}`));
    requests.length = 0;
    // Where it is known how far reading goes on, no more is asked for.
    for (const [offset, until] of [
      [1_500_000, 1_500_100],
      [1_500_016, 1_500_100],
      [1_500_090, undefined],
      [1_600_000, 1_600_008],
    ] as const) {
      const target = new Uint8Array(16);
      await file.read(offset, target, until);
      expect(target).toEqual(bytes.slice(offset, offset + 16));
    }
    expect(asked()).toEqual(["bytes=1500000-1500099", `bytes=1500090-${end}`]);
    await expect(file.read(file.size - 4, new Uint8Array(16))).rejects.toThrow(/ended after/);
    await file.close();
    expect((await webPlatform.openBeside(`${base}/models/model.onnx`, "empty.bin")).size).toBe(0);
  });

  for (const withRanges of [true, false]) {
    it(`counts names that lead to one place as one file, ${withRanges ? "in ranges" : "whole"}`, async () => {
      ranges = withRanges;
      const size = files["/models/weights%20%231.bin"].length;
      const named = (count: number): Model => ({
        ...buildModel({
          opset: 24,
          initializers: Array.from({ length: count }, (_, i) => ({
            ...initializer(`w${i}`, "uint8", new Uint8Array(0)),
            dims: [size],
            data: undefined,
            external: { location: `alias${i}.bin`, offset: 0 },
          })),
        }),
        path: `${base}/models/model.onnx`,
      });
      await expect(loadExternalData(named(2), webPlatform)).resolves.toBeDefined();
      await expectRejection(
        loadExternalData(named(5), webPlatform),
        "external-data",
        new RegExp(`has ${size} bytes, overlapping tensors ask for ${5 * size}`),
      );
    });
  }

  it("says what cannot be fetched", async () => {
    await expectRejection(
      loadModel(`${base}/models/none.onnx`, webPlatform),
      "invalid-argument",
      /none\.onnx cannot be fetched: .*404/,
    );
    await expect(webPlatform.openBeside(`${base}/models/model.onnx`, "none.bin")).rejects.toThrow(/404/);
  });

  it("tells the progress of a small model too: its start, and all its bytes", async () => {
    const small = writeModel(buildModel({ opset: 24 }));
    const reports: number[][] = [];
    const url = `data:application/octet-stream;base64,${Buffer.from(small).toString("base64")}`;
    await loadModel(url, webPlatform, { onProgress: (...report) => reports.push(report) });
    expect(reports).toEqual([
      [0, small.length],
      [small.length, small.length],
    ]);
  });

  it("takes a web page for no file, and tells of it", async () => {
    const there = (path: string): Promise<boolean> => webPlatform.exists(`${base}${path}`);
    expect([await there("/app/config.json"), await there("/app/index.html")]).toEqual([false, true]);
    expect([await there("/called-page.json"), await there("/get-only.json")]).toEqual([true, true]);
    expect(await webPlatform.whyAbsent!(`${base}/app/config.json`)).toMatch(
      /config\.json: its server answered with a web page/,
    );
    expect(await webPlatform.whyAbsent!(`${base}/none.json`)).toMatch(/none\.json: it answered 404 Not Found$/);
    await expectRejection(
      loadModel(`${base}/app/model.onnx`, webPlatform),
      "invalid-model",
      /app\/model\.onnx is an HTML page: servers send one in place of a missing file/,
    );
    await expect(webPlatform.openBeside(`${base}/app/model.onnx`, "weights.bin")).rejects.toThrow(/a web page/);
  });

  it("says where nothing answers", async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(gone.address() as AddressInfo).port}/config.json`;
    await new Promise((resolve) => gone.close(resolve));
    const message = /config\.json cannot be fetched: nothing answers there/;
    await expectRejection(webPlatform.exists(url), "invalid-argument", message);
    await expectRejection(loadModel(url, webPlatform), "invalid-argument", message);
  });

  it("says why a folder is none, and where names on the hub are to be found", async () => {
    const refusal = (url: string): Promise<string> =>
      CausalLM.load(url).then(
        () => "nothing was refused",
        (error: unknown) => (error as Error).message,
      );
    expect(await refusal(`${base}/app`)).toMatch(
      /holds no language model: .*; http.*tokenizer\.json: its server answered with a web page/,
    );
    expect(await refusal(`${base}/nothing`)).toMatch(
      /holds no language model: .*; http.*tokenizer\.json: it answered 404 Not Found$/,
    );
    expect(await refusal("https://huggingface.co/tales/small")).toMatch(
      /is a page of the hub: the model's files are at "https:\/\/huggingface\.co\/tales\/small\/resolve\/main"$/,
    );
    expect(await refusal(undefined!)).toMatch(
      /^CausalLM\.load needs a model's name or the URL of its folder: .*models\/embedded$/,
    );
  });

  it("stays in the model's folder", () => {
    const at = "https://example.com/a/b/model.onnx?key=1";
    expect(urlBeside(at, "sub/x.bin").href).toBe("https://example.com/a/b/sub/x.bin");
    expect(urlBeside(at, "%2e%2e/x.bin").href).toBe("https://example.com/a/b/%252e%252e/x.bin");
    expect(urlBeside(at, "x.bin?y#z").href).toBe("https://example.com/a/b/x.bin%3Fy%23z");
    for (const location of [
      "../x",
      "/x",
      "//evil.com/x",
      "https://evil.com/x",
      "a\\..\\..\\x",
      "",
      "data:,x",
      "a/../../../x",
      "\\\\evil.com\\x",
    ]) {
      expectError(() => urlBeside(at, location), "external-data", /location/);
    }
    expectError(() => urlBeside("blob:https://example.com/123", "x.bin"), "external-data", /has no folder/);
    expectError(() => urlBeside("model.onnx", "x.bin"), "invalid-argument", /is not a URL/);
  });
});
