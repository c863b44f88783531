// Models by fetch are read as they arrive: no body is held whole beside the memory it goes to, whether the server answers in ranges or
// not. A body that was compressed on the way is the exception, since its length is not told.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { loadModel } from "../../src/onnx/load.js";
import { moveToExternalData } from "../../tools/demo/move-external.js";
import { concatenate } from "../../src/onnx/pieces.js";
import { writeModel } from "../../src/onnx/write.js";
import { tensorBytes } from "../../src/onnx/write-tensor.js";
import { webPlatform } from "../../src/platform/web.js";

const source = generatedDecoder({ ...smallSizes, hidden: 128, vocabulary: 1024 });
const { model, pieces } = moveToExternalData(source, { location: "weights.bin" });
const files: Readonly<Record<string, Uint8Array>> = {
  "/whole.onnx": writeModel(source),
  "/model.onnx": writeModel(model),
  "/weights.bin": concatenate(pieces),
};

let server: Server;
let base: string;
let answers: "ranges" | "whole" | "compressed" = "ranges";

beforeAll(async () => {
  server = createServer((request, response) => {
    const bytes = files[request.url ?? ""];
    const start = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    if (answers === "compressed") response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(bytes));
    else if (answers === "whole" || start === null)
      response.writeHead(200, { "content-length": bytes.length }).end(bytes);
    else {
      const [from, to] = [Number(start[1]), start[2] === "" ? bytes.length : Number(start[2]) + 1];
      response
        .writeHead(206, { "content-range": `bytes ${from}-${to - 1}/${bytes.length}` })
        .end(bytes.subarray(from, to));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => void vi.restoreAllMocks());

test.each([
  ["ranges", 0],
  ["whole", 0],
  ["compressed", 3],
] as const)("a server that answers with %s: bodies held whole: %i", async (how, held) => {
  answers = how;
  const whole = vi.spyOn(Response.prototype, "arrayBuffer");
  // Memory as a backend gives it: asked for before it is filled.
  const asked: number[] = [];
  const allocate = (sizes: readonly number[]): Uint8Array[] => {
    asked.push(...sizes);
    return sizes.map((bytes) => new Uint8Array(bytes));
  };
  for (const path of ["/whole.onnx", "/model.onnx"]) {
    const loaded = await loadModel(`${base}${path}`, webPlatform, {}, allocate);
    loaded.graph.initializers.forEach((tensor, at) => {
      expect(Buffer.compare(tensorBytes(tensor), tensorBytes(source.graph.initializers[at])), tensor.name).toBe(0);
    });
  }
  expect(whole).toHaveBeenCalledTimes(held);
  expect(asked.slice(0, 2)).toEqual([files["/whole.onnx"].length, files["/model.onnx"].length]);
});
