// Builds the page of site/. `buildPage` makes what `insitu serve` ships: the files of the page in one module, packages/serve/page-files.gen.ts. `npm run site`
// (`node scripts/build-site.mjs [port]`) builds the static site: the chat with the embedded model
// beside it, and the guide, which scripts/guide-site.mjs renders. Then it serves both.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildGuide } from "./guide-site.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The files below a folder, by paths from there. */
function filesBelow(folder, before = "") {
  return readdirSync(join(folder, before), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(folder, `${before}${entry.name}/`) : [before + entry.name],
  );
}

function build(host, folder) {
  // A process of its own: the configuration is read for one host.
  const { status } = spawnSync(process.execPath, ["node_modules/vite/bin/vite.js", "build", "site"], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, INSITU_HOST: host, INSITU_PAGE_FOLDER: folder },
  });
  if (status !== 0) process.exit(status ?? 1);
}

/** When what the page is made of was changed last. */
const changed = () =>
  Math.max(
    ...[...filesBelow(join(root, "site")).map((path) => `site/${path}`), "package-lock.json"].map(
      (path) => statSync(join(root, path)).mtimeMs,
    ),
  );

const types = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  webmanifest: "application/manifest+json",
};

/** Writes the module with the page's files, unless it is newer than all that the page is made of. */
export function buildPage() {
  const module = join(root, "packages/serve/page-files.gen.ts");
  if (existsSync(module) && statSync(module).mtimeMs > changed()) return;
  const folder = join(root, ".cache/page");
  build("server", folder);
  const files = filesBelow(folder).map((path) => [
    `/${path === "index.html" ? "" : path}`,
    {
      type: types[path.split(".").at(-1)],
      gzip: gzipSync(readFileSync(join(folder, path)), { level: 9 }).toString("base64"),
    },
  ]);
  const text = `/** The files of the page at \`/\`, by path, deflated and in base 64: made of site/ by scripts/build-site.mjs. */
export const pageFiles: Readonly<Record<string, { readonly type: string; readonly gzip: string }>> = ${JSON.stringify(Object.fromEntries(files), undefined, 1)};
`;
  writeFileSync(module, text);
}

/** Builds the static site into a folder: the chat with the embedded model, and the guide below guide/; that folder. */
export function buildSite(folder = join(root, ".cache/site")) {
  build("browser", folder);
  cpSync(join(root, "dist/browser"), join(folder, "insitu"), { recursive: true });
  cpSync(join(root, "models/embedded"), join(folder, "models/embedded"), { recursive: true });
  buildGuide(join(folder, "guide"));
  return folder;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = buildSite();
  const sizes = filesBelow(folder)
    .filter((path) => /\.(js|css|html)$/.test(path))
    .map((path) => [path, gzipSync(readFileSync(join(folder, path))).length]);
  for (const [path, bytes] of sizes.toSorted((a, b) => b[1] - a[1]))
    console.log(`${(bytes / 1000).toFixed(1).padStart(8)} KB gzip  ${path}`);
  const { preview } = await import("vite");
  const port = Number(process.argv[2] ?? 4173);
  const server = await preview({
    configFile: join(root, "site/vite.config.mjs"),
    build: { outDir: folder },
    preview: { port, host: "127.0.0.1" },
  });
  console.log(`open ${server.resolvedUrls.local[0]}`);
}
