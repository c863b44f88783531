// Serves the checkout for the page: `node examples/browser/serve.mjs [port]`. The two headers let the page share memory with workers.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const types = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const path = join(root, normalize(pathname === "/" ? "/examples/browser/index.html" : decodeURIComponent(pathname)));
  const headers = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
  const file = statSync(path, { throwIfNoEntry: false });
  if (!file?.isFile()) return response.writeHead(404, headers).end();
  if (pathname === "/") return response.writeHead(302, { ...headers, location: "/examples/browser/index.html" }).end();
  response.writeHead(200, { ...headers, "content-type": types[extname(path)] ?? "application/octet-stream", "content-length": file.size });
  if (request.method === "HEAD") response.end();
  else createReadStream(path).pipe(response);
});
server.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () => console.log(`open http://127.0.0.1:${server.address().port}/`));
