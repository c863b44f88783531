// Serves the page from the checkout: `node examples/browser/serve.mjs [port]`. The two headers let the page share memory with workers.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** What is served of the checkout. */
const folders = ["/examples/browser/", "/dist/browser/", "/models/"];
const types = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
};
const headers = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cache-control": "no-cache",
};

/** The path below the checkout that a request asks for; undefined for what cannot be one. */
function pathOf(request) {
  try {
    return normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname)).replaceAll("\\", "/");
  } catch {
    return undefined;
  }
}

const server = createServer((request, response) => {
  const answer = (status, more = {}) => response.writeHead(status, { ...headers, ...more });
  const pathname = pathOf(request);
  if (pathname === undefined || pathname.includes("\0")) return answer(400).end("not a path\n");
  if (request.method !== "GET" && request.method !== "HEAD") return answer(405, { allow: "GET, HEAD" }).end();
  if (pathname === "/") return answer(302, { location: "/examples/browser/index.html" }).end();
  const path = join(root, pathname);
  const file = folders.some((folder) => pathname.startsWith(folder)) && statSync(path, { throwIfNoEntry: false });
  if (!file || !file.isFile()) return answer(404).end("not here\n");
  answer(200, { "content-type": types[extname(path)] ?? "application/octet-stream", "content-length": file.size });
  if (request.method === "HEAD") return response.end();
  // A reader that leaves ends the stream; a file that goes away ends the answer.
  createReadStream(path)
    .on("error", () => response.destroy())
    .pipe(response);
});
server.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () =>
  console.log(`open http://127.0.0.1:${server.address().port}/`),
);
