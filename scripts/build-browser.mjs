// Bundles dist/ for pages without a bundler: dist/browser/insitu.js and worker.js need nothing but the files beside them. The kernels stay
// files of their own, so that a page fetches only the build it uses.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { thirdPartyText } from "./third-party.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "dist/browser");

/** The licences of the packages inside. */
const licences = "LICENSES.txt";

/** Writes dist/browser; files of builds before are removed. */
export async function buildBrowser() {
  mkdirSync(folder, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: {
      insitu: "dist/index.js",
      worker: "dist/worker.js",
      "model-worker-web": "dist/worker/model-worker-web.js",
      "kernel-worker-web": "dist/platform/kernel-worker-web.js",
    },
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    legalComments: "inline",
    banner: { js: "/*! insitu, Apache-2.0; licences of the packages inside: LICENSES.txt */" },
    target: "es2022",
    outdir: "dist/browser",
    metafile: true,
    logLevel: "warning",
  });
  writeFileSync(join(folder, licences), thirdPartyText(Object.keys(metafile.inputs), root));
  const written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  for (const name of readdirSync(folder)) if (!written.has(name) && name !== licences) rmSync(join(folder, name));
}
