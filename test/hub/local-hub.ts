// A hub played by a server on this machine: lists and serves the files of some models, in ranges, for pages of other origins too, and cuts
// connections where it is told to.
import { createHash } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const gitHash = (bytes: Uint8Array): string =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export interface LocalHub {
  readonly url: string;
  /** `METHOD path range` of every request so far. */
  readonly requests: string[];
  /** The models by name; each has its files by path. */
  readonly models: Map<string, Map<string, Uint8Array>>;
  /** Asked for every file: bytes after which the connection is cut, or an answer of one's own (true). */
  answer:
    | ((path: string, bytes: Uint8Array, from: number, response: ServerResponse) => number | true | undefined)
    | undefined;
  close(): Promise<void>;
}

/** Starts a hub on a free port. */
export async function startHub(models: LocalHub["models"]): Promise<LocalHub> {
  const requests: string[] = [];
  const hub: LocalHub = { url: "", requests, models, answer: undefined, close };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split("?")[0]);
    const { range } = request.headers;
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-allow-headers", "*");
    response.setHeader("access-control-expose-headers", "*");
    response.setHeader("cross-origin-resource-policy", "cross-origin");
    if (request.method === "OPTIONS") return void response.writeHead(204).end();
    requests.push(`${request.method} ${path} ${range ?? "whole"}`);
    const listed = /^\/api\/models\/([^/]+\/[^/]+)\/tree\/main$/.exec(path)?.[1];
    if (listed !== undefined) {
      const files = models.get(listed);
      if (files === undefined) return void response.writeHead(404).end();
      const entries = [...files].map(([name, bytes]) => ({
        type: "file",
        path: name,
        size: bytes.length,
        oid: gitHash(bytes),
        ...(/\.onnx/.test(name) ? { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 100 } } : {}),
      }));
      return void response.setHeader("content-type", "application/json").end(JSON.stringify(entries));
    }
    const [, name, file] = /^\/([^/]+\/[^/]+)\/resolve\/main\/(.+)$/.exec(path) ?? [];
    const bytes = models.get(name ?? "")?.get(file ?? "");
    if (bytes === undefined) return void response.writeHead(404).end();
    const [from, to] = rangeOf(range, bytes.length);
    const told = hub.answer?.(file, bytes, from, response);
    if (told === true) return;
    const headers = { "content-length": to - from, "content-range": `bytes ${from}-${to - 1}/${bytes.length}` };
    response.writeHead(
      range === undefined ? 200 : 206,
      range === undefined ? { "content-length": bytes.length } : headers,
    );
    if (told === undefined) return void response.end(bytes.subarray(from, to));
    // What was written must be on its way before the connection goes.
    response.write(bytes.subarray(from, Math.min(from + told, to)), () => setTimeout(() => response.destroy(), 30));
  });
  async function close(): Promise<void> {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(hub, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

function rangeOf(range: string | undefined, size: number): readonly [from: number, to: number] {
  const [, from = "0", last = ""] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
  return [Number(from), last === "" ? size : Math.min(Number(last) + 1, size)];
}
