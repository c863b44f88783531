// Suites of very many like tests run a sample in the tests, chosen by the tests' names and so always the same, and all of it in the soak: those
// whose shaders SwiftShader takes long to compile, and tables of decoders of which each is exported, styled or rewritten another way.
import { beforeEach } from "vitest";

const soak = process.env["INSITU_SOAK"] !== undefined;

/** One test of so many runs, of those whose names fit. */
const samples: readonly { readonly suite: RegExp; readonly tests?: RegExp; readonly every: number }[] = [
  { suite: /\/test\/webgpu\/kernels\/(?!poison)/, every: 16 },
  { suite: /\/test\/rewrite\/onnxruntime\.test/, tests: /^(?!llama_static)/, every: 3 },
  { suite: /\/test\/rewrite\/styles\.test/, every: 3 },
  { suite: /\/test\/passes\/decoders\.test/, tests: /_op\d+/, every: 3 },
  { suite: /\/test\/wasm\/decoders\.test/, tests: /rewrite:/, every: 3 },
];

/** A number that a text always has: FNV-1a. */
function numberOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash;
}

beforeEach((context) => {
  const { task } = context;
  if (soak) return;
  const sample = samples.find(({ suite, tests }) => suite.test(task.file.filepath) && tests?.test(task.name) !== false);
  if (sample === undefined) return;
  if (numberOf(`${task.file.name} ${task.name}`) % sample.every !== 0) context.skip("not in this sample");
});
