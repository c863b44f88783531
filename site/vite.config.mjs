// Builds the page for one of its hosts: `INSITU_HOST=server` (what `insitu serve` ships) or `browser` (a static site). See scripts/build-site.mjs.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const host = process.env.INSITU_HOST ?? "browser";

const headers = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

/** The library's own bundle for pages, which lies beside the page as it is. */
const library =
  host === "browser"
    ? readdirSync(here("../dist/browser")).flatMap((name) =>
        name.endsWith(".js") && name !== "insitu.js" ? [`insitu/${name}`] : [],
      )
    : [];

/** The service worker, with the names of all files that the build wrote. */
const serviceWorker = {
  name: "service-worker",
  generateBundle(_, bundle) {
    const files = [
      "./",
      ...Object.keys(bundle).filter((path) => !path.endsWith(".html")),
      "icon.svg",
      "manifest.webmanifest",
      ...library,
    ];
    const version = createHash("sha256").update(JSON.stringify(files)).digest("hex").slice(0, 12);
    const source = readFileSync(here("sw.js"), "utf8")
      .replaceAll("FILES", JSON.stringify(files))
      .replaceAll("VERSION", JSON.stringify(version))
      .replaceAll("ISOLATES", String(host === "browser"));
    this.emitFile({ type: "asset", fileName: "sw.js", source });
  },
};

export default defineConfig({
  root: here("."),
  base: "./",
  define: { HOST: JSON.stringify(host) },
  resolve: {
    alias: { "insitu/hub": here("../dist/hub"), "insitu/platform": here("../dist/platform") },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [serviceWorker],
  build: {
    outDir: process.env.INSITU_PAGE_FOLDER,
    emptyOutDir: true,
    assetsDir: "page",
    modulePreload: false,
    target: "es2022",
    reportCompressedSize: false,
    rolldownOptions: { external: ["insitu/worker"], output: { paths: { "insitu/worker": "../insitu/worker.js" } } },
  },
  server: { headers },
  preview: { headers },
  logLevel: "warn",
});
