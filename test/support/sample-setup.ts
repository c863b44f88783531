// Suites of very many like tests run a sample in the tests, chosen by the tests' names and so always the same: scripts/gate.mjs says which, and when they
// run whole. In the soak all do.
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach } from "vitest";
import { isOf, samples } from "../../scripts/gate.mjs";
import { soak } from "./soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const whole = new Set((process.env["INSITU_WHOLE_SUITES"] ?? "").split(","));

/** A number that a text always has: FNV-1a. */
function numberOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return hash;
}

beforeEach((context) => {
  const { task } = context;
  const suite = relative(root, task.file.filepath);
  if (soak || whole.has(suite)) return;
  const sample = samples.find((each) => isOf(each, suite) && each.tests?.test(task.name) !== false);
  if (sample === undefined) return;
  if (numberOf(`${task.file.name} ${task.name}`) % sample.every !== 0) context.skip("not in this sample");
});
