// A small server for the page: folders and single files, with ranges, and with the headers that make a page what the test wants.
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

const contentTypes: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

/** Headers of a page that may share memory with workers. */
export const isolation: Readonly<Record<string, string>> = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
};

export interface ServerOptions {
  /** Sent with every answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** Folders by the prefix of their paths, such as `/dist/`. */
  readonly folders: Readonly<Record<string, string>>;
  /** Files by path; they win over folders. Undefined is a file that is not there. */
  readonly files: ReadonlyMap<string, Uint8Array | string | undefined>;
  /** Types of content by the prefix of paths, where a path's ending says another one. */
  readonly types?: Readonly<Record<string, string>>;
}

export interface RunningServer {
  readonly base: string;
  /** `path range status` of every request so far. */
  readonly requests: string[];
  close(): void;
}

/** Starts serving on a free port of this machine alone. */
export async function startServer({
  headers: always,
  folders,
  files,
  types = {},
}: ServerOptions): Promise<RunningServer> {
  const requests: string[] = [];
  const find = (path: string): Uint8Array | undefined => {
    if (files.has(path)) {
      const file = files.get(path);
      return typeof file === "string" ? Buffer.from(file) : file;
    }
    const prefix = Object.keys(folders).find((start) => path.startsWith(start));
    if (prefix === undefined) return undefined;
    const place = join(folders[prefix], normalize(`/${path.slice(prefix.length)}`));
    return statSync(place, { throwIfNoEntry: false })?.isFile() ? readFileSync(place) : undefined;
  };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname);
    const bytes = find(path);
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const answer = (status: number, headers: Record<string, string>, body?: Uint8Array): void => {
      requests.push(`${path} ${request.headers.range ?? "whole"} ${status}`);
      response.writeHead(status, { "cache-control": "no-store", ...always, ...headers }).end(body);
    };
    if (bytes === undefined) return answer(404, { "content-type": "text/plain" });
    const told = Object.keys(types).find((start) => path.startsWith(start));
    const byName = contentTypes[path === "/" ? ".html" : extname(path)] ?? "application/octet-stream";
    const type = { "content-type": told === undefined ? byName : types[told] };
    if (range === null) return answer(200, type, bytes);
    const start = Number(range[1]);
    const end = Math.min(range[2] === "" ? bytes.length : Number(range[2]) + 1, bytes.length);
    if (start >= end) return answer(416, type);
    answer(206, { ...type, "content-range": `bytes ${start}-${end - 1}/${bytes.length}` }, bytes.subarray(start, end));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
