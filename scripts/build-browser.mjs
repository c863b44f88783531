// Bundles dist/ for pages without a bundler: dist/browser/insitu.js and worker.js need nothing but the files beside them. The kernels stay
// files of their own, so that a page fetches only the build it uses.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { thirdPartyText } from "./third-party.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "dist/browser");

/** The licences of the packages inside. */
const licences = "LICENSES.txt";

/**
 * Operators by their folders that are a chunk of their own, which comes with the first model that calls one: those that few decoders call, and those
 * of ONNX's quantization, of Microsoft's attention and of older exports, whose decoders are hundreds of times as large as the chunk. No pass makes them
 * where the model calls none of them, and no function of the library calls them.
 */
const late =
  `arg-max batch-normalization bit-cast bitwise causal-conv-with-state clip compress control-flow conv conv-transpose cumulative depth-to-space
  dequantize-matmul det dropout dynamic-quantize-matmul einsum eye-like flatten flex-attention fourier fused-matmul-bias gated-layers gemm
  grid-sample group-normalization group-query-attention hardmax linear-attention lp-normalization matmul-bnb4 mean-variance-normalization
  mel-weight-matrix microsoft-attention microsoft-gelu microsoft-rotary-embedding mixture-of-experts mod multi-head-attention
  non-max-suppression non-zero one-hot pad pool predicates quantize quantized-conv quantized-matmul random recurrent resize reverse-sequence
  signal-window tile top-k trilu unique`.split(/\s+/);

const lines = (file) => readFileSync(join(root, "dist/ops", file), "utf8").split("\n");
const isLate = (line) => late.some((name) => line.includes(`"./${name}/`));

/** A generated list of operators or kernels without the late ones. */
function listWithout(file) {
  const gone = new Set(lines(file).flatMap((line) => (isLate(line) ? [/as (\w+) from/.exec(line)[1]] : [])));
  const names = (line) => gone.has(/\.\.\.Object\.values\((\w+)\)/.exec(line)?.[1]);
  return lines(file)
    .filter((line) => !isLate(line) && !names(line))
    .join("\n");
}

/** The module that adds the late ones. */
function lateModule() {
  const imports = (file, prefix) =>
    lines(file)
      .filter(isLate)
      .map((line, at) => [line.replace(/\* as \w+/, `* as ${prefix}${at}`), `...Object.values(${prefix}${at}).flat()`]);
  const [ops, kernels] = [imports("index.gen.js", "op"), imports("wasm.gen.js", "kernels")];
  return [
    ...[...ops, ...kernels].map(([line]) => line),
    'import { kernelTable } from "../graph/kernel.js";',
    'import { operators } from "./index.js";',
    'import { wasmKernels } from "./wasm.js";',
    `operators.add([${ops.map(([, list]) => list)}]);`,
    `kernelTable([${kernels.map(([, list]) => list)}], wasmKernels);`,
  ].join("\n");
}

const lateOperators = {
  name: "late-operators",
  setup({ onLoad, onResolve }) {
    const resolveDir = join(root, "dist/ops");
    onResolve({ filter: /^late-operators$/ }, () => ({ path: "late-operators", namespace: "late", sideEffects: true }));
    onLoad({ filter: /.*/, namespace: "late" }, () => ({ contents: lateModule(), resolveDir }));
    onLoad({ filter: /dist\/ops\/(index|wasm)\.gen\.js$/ }, ({ path }) => ({ contents: listWithout(basename(path)) }));
    onLoad({ filter: /dist\/ops\/late-operators\.js$/ }, () => ({
      contents: 'export const lateOperators = () => import("late-operators");',
      resolveDir,
    }));
  },
};

/** What pages import, by the name of its file. */
const entries = {
  insitu: "dist/index.js",
  worker: "dist/worker.js",
  "model-worker-web": "dist/worker/model-worker-web.js",
  "kernel-worker-web": "dist/platform/kernel-worker-web.js",
};

const banner = `/*! insitu, Apache-2.0; licences of the packages inside: ${licences} */`;

/** Writes dist/browser; files of builds before are removed. */
export async function buildBrowser() {
  mkdirSync(folder, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: entries,
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    legalComments: "inline",
    target: "es2022",
    outdir: "dist/browser",
    metafile: true,
    plugins: [lateOperators],
    logLevel: "warning",
  });
  // Entries say it; in each of their chunks it would be a hundredth of what a page reads.
  for (const entry of Object.keys(entries).map((name) => join(folder, `${name}.js`)))
    writeFileSync(entry, `${banner}\n${readFileSync(entry, "utf8")}`);
  writeFileSync(join(folder, licences), thirdPartyText(Object.keys(metafile.inputs), root));
  const written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  for (const name of readdirSync(folder)) if (!written.has(name) && name !== licences) rmSync(join(folder, name));
}
