// Single operators with each of their buffers in turn flush against the end of the memory, where a byte read or written too far traps:
// feeds, weights, the arena, jobs, temporaries. Random cases answered by onnxruntime; a sample in the tests, all of them in the soak.
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCase } from "../../tools/conformance/case.js";
import { InferenceSession } from "../../src/entry/node.js";
import { archivedCases } from "../support/archived-cases.js";
import { atTheEnd, MemoryEnd, prepare } from "../support/memory-end.js";
import { soak } from "../support/soak.js";

const every = soak ? 1 : 72;

const end = new MemoryEnd();
afterAll(() => end.restore());
// The threads' own buffers are taken with the first session.
beforeAll(() => prepare({ ...atTheEnd, threads: 1 }));

test.each([
  ["onnxruntime-contrib", 1],
  ["onnxruntime-clients", 3],
  ["random-operators", 5],
  ["onnx-node-1.23.1", 9],
] as const)(`%s, every ${every}. case`, async (archive, first) => {
  let placed = 0;
  const cases = archivedCases(new URL(`../conformance/${archive}.tar.br`, import.meta.url));
  for (const [at, files] of cases.entries()) {
    if (at % every !== first % every) continue;
    // One buffer after the other, until all that the session takes had their turn.
    for (let number = 0, taken = 1; number < taken; number++) {
      end.place((taking) => taking.number === number);
      const result = await runCase(files, (model) => InferenceSession.create(model, { ...atTheEnd, threads: 1 }));
      if (result.status === "skipped") break;
      expect({ ...result, number }).toEqual({ name: files.name, status: "passed", number });
      taken = end.taken;
      placed += end.placed;
    }
  }
  console.log(`${archive}: ${placed} buffers were at the end of a memory`);
  expect(placed).toBeGreaterThan(100);
});
