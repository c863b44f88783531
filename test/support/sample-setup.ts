// Suites whose shaders SwiftShader takes long to compile run a sample in the tests, chosen by the tests' names, and all of it in the soak.
import { beforeEach } from "vitest";

const soak = process.env["INSITU_SOAK"] !== undefined;
const every = 16;

/** A number that a text always has: FNV-1a. */
function numberOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash;
}

beforeEach((context) => {
  const { task } = context;
  if (soak || !/\/test\/webgpu\/kernels\//.test(task.file.filepath)) return;
  if (numberOf(`${task.file.name} ${task.name}`) % every !== 0) context.skip("not in this sample");
});
