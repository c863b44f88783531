// Bundles the entries of Node from src/ and tools/ into dist/node, in few files with source maps: to open the library's hundreds is most of what a short
// program does. Packages stay outside, as do models; workers are files beside the code that starts them.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { sourceOf } from "./rooms.mjs";
import { uncommented } from "./uncommented.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Tools and packages are reached by a name that stands for dist/: in a bundle all are made of the same sources. */
const sources = {
  name: "sources",
  setup(bundle) {
    bundle.onResolve({ filter: /^#insitu\// }, ({ path }) => ({
      path: join(root, sourceOf(path)),
      sideEffects: false,
    }));
    bundle.onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      contents: uncommented(path, readFileSync(path, "utf8"), true),
      loader: "ts",
    }));
  },
};

/** Writes dist/node; files of builds before are removed. All files lie in one folder, as deep as those that tsc writes for a room. */
export async function buildNode() {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: {
      index: "src/index.node.ts",
      onnxruntime: "src/onnxruntime.node.ts",
      worker: "src/worker.node.ts",
      serve: "packages/serve/server.ts",
      cli: "packages/cli/main.ts",
      "command-line": "packages/cli/command-line.ts",
      "shipped-tools": "tools/cli/shipped-tools.ts",
      "kernel-worker-node": "src/platform/kernel-worker-node.ts",
      "model-worker-node": "packages/worker/model-worker-node.ts",
    },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    sourcemap: true,
    sourcesContent: false,
    legalComments: "inline",
    outdir: "dist/node",
    plugins: [sources],
    metafile: true,
    logLevel: "warning",
  });
  const written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  const folder = join(root, "dist/node");
  for (const name of readdirSync(folder)) if (!written.has(name)) rmSync(join(folder, name));
}
