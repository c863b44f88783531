// Bundles what is published of src/, packages/ and tools/ into dist/lib: one set of chunks for Node's entries and for those that browsers' bundlers
// take apart, with source maps. To open the library's hundreds of modules is most of what a short program in Node does; a bundler needs only that
// what is not imported lies in chunks of its own, which is what parts are for. Packages stay outside, as do models; workers are files beside
// the code that starts them. Pages without a bundler: build-browser.mjs.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { linesOnly } from "./line-maps.mjs";
import { sourceOf } from "./rooms.mjs";
import { uncommented } from "./uncommented.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

const entries = {
  index: "src/index.ts",
  onnxruntime: "src/onnxruntime.ts",
  worker: "src/worker.ts",
  "kernel-worker-web": "src/platform/kernel-worker-web.ts",
  "model-worker-web": "packages/worker/model-worker-web.ts",
  ai: "packages/ai/provider.ts",
  langchain: "packages/ai/langchain.ts",
  serve: "packages/serve/server.ts",
  "index.node": "src/index.node.ts",
  "onnxruntime.node": "src/onnxruntime.node.ts",
  "worker.node": "src/worker.node.ts",
  cli: "packages/cli/main.ts",
  "command-line": "packages/cli/command-line.ts",
  "shipped-tools": "tools/cli/shipped-tools.ts",
  "kernel-worker-node": "src/platform/kernel-worker-node.ts",
  "model-worker-node": "packages/worker/model-worker-node.ts",
};

/**
 * What the entries hand on, as programs import it: entries too, so that a bundler takes the code of what is imported and no other. A few of them, since
 * each adds files that Node opens. They are no files of the package.
 */
const parts = [
  ["src/base/error.ts", "src/tensor/tensor.ts"],
  ["packages/functions/ops.ts"],
  ["src/session/session.ts", "src/session/state.ts", "src/session/checkpoint.ts"],
  ["src/cache/block-pool.ts", "src/cache/pages.ts", "src/cache/paged-state.ts", "packages/eviction/scores-model.ts"],
  ["src/cache/eviction.ts", "packages/eviction/per-head-state.ts", "packages/eviction/evicting-state.ts"],
  ["src/entry/web.ts", "src/entry/onnxruntime.ts", "src/entry/onnxruntime-web.ts"],
  ["src/entry/embedding-web.ts", "src/platform/web-models.ts"],
];

/** Entries that only hand on. esbuild has them import every chunk below, for the order of side effects; there are none, and bundlers would keep the chunks. */
const forBundlers = ["index.js", "onnxruntime.js", "worker.js"];
const bareImports = /^import "[^"]+";(?=\n)/gm;

/** Tools and packages are reached by a name that stands for dist/: in a bundle all are made of the same sources. */
const sources = {
  name: "sources",
  setup(bundle) {
    bundle.onResolve({ filter: /^#insitu\// }, ({ path }) => ({
      path: join(root, sourceOf(path)),
      sideEffects: false,
    }));
    bundle.onResolve({ filter: /^part:/ }, ({ path }) => ({ path, namespace: "part" }));
    bundle.onLoad({ filter: /.*/, namespace: "part" }, ({ path }) => ({
      contents: parts[Number(path.slice("part:".length))].map((part) => `export * from "./${part}";`).join("\n"),
      resolveDir: root,
    }));
    bundle.onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: uncommented(path, readFileSync(path, "utf8"), true),
      loader: "ts",
    }));
  },
};

/** Writes dist/lib; files of builds before are removed. All files lie in one folder, as deep as those that tsc writes for a room. */
export async function buildLibrary() {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { ...entries, ...Object.fromEntries(parts.map((_, at) => [`part-${at}`, `part:${at}`])) },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    packages: "external",
    sourcemap: true,
    sourcesContent: false,
    legalComments: "inline",
    outdir: "dist/lib",
    plugins: [sources],
    metafile: true,
    logLevel: "warning",
  });
  const written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  const folder = join(root, "dist/lib");
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (!written.has(name) || name.startsWith("part-")) rmSync(path);
    else if (name.endsWith(".map")) writeFileSync(path, linesOnly(readFileSync(path, "utf8")));
    else if (forBundlers.includes(name)) writeFileSync(path, readFileSync(path, "utf8").replace(bareImports, ""));
  }
}
