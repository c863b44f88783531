// Calls without elements: every case of an operator with one of its dimensions made 0 wherever it stands, its buffers at the end of the
// memory. Nothing is computed and nothing traps; the shapes, and what is left of the results, are the reference implementation's.
import { afterAll, beforeAll, expect, test } from "vitest";
import { View } from "../../src/tensor/view.js";
import { MemoryEnd } from "../support/memory-end.js";
import { answeredCases, problemsOf, report } from "../support/op-cases.js";
import { openVariant, type Variant } from "./fast-path.js";
import { soak } from "../support/soak.js";

const every = soak ? 1 : 3;

let variants: readonly Variant[];
beforeAll(async () => {
  variants = [await openVariant(2, true)];
});
const end = new MemoryEnd(() => true);
afterAll(() => {
  end.restore();
  variants.forEach(({ session }) => session.release());
});

test("with one dimension of 0", async () => {
  const problems: string[] = [];
  const counts = { refused: 0, ran: 0, inPlace: 0 };
  end.place(({ number }) => number % 3 === 0);
  for (const [number, example] of answeredCases.entries()) {
    if (number % every !== 0) continue;
    const sizes = new Set(example.inputs.flatMap((view) => view?.shape ?? []));
    for (const size of sizes) {
      if (size === 0) continue;
      const inputs = example.inputs.map(
        (view) =>
          view &&
          (view.shape.includes(size)
            ? View.allocate(
                view.type,
                view.shape.map((dim) => (dim === size ? 0 : dim)),
              )
            : view),
      );
      const what = `${example.op}-${example.opset}: ${example.shows}; dimensions of ${size} are 0`;
      problems.push(...(await problemsOf(variants, { ...example, inputs }, what, counts)));
    }
  }
  report(counts, `${end.placed} buffers at the end of a memory`);
  expect(problems).toEqual([]);
  expect(counts.ran).toBeGreaterThan(1000 / every);
});
