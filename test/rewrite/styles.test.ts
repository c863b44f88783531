// Decoders in many styles, rewritten and run beside the original: prefill, decoding, rewinding, prompts of different lengths in one batch.
// The tests run a third of it (test/support/sample-setup.ts), the soak all.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { checkRewrite } from "./check.js";
import { styles } from "./style-list.js";
import { sizesOf, type Style, styledDecoder } from "./styles.js";
import { soak } from "../support/soak.js";

/** Seeds of the sizes, which differ from style to style; many more in a soak. */
const seedsFor = (at: number): number[] => (soak ? Array.from({ length: 40 }, (_, seed) => seed) : [at % 11]);

function optionsFor(name: string, style: Style): readonly Parameters<typeof rewrite>[1][] {
  const windows = ["window", "chunk"].includes(style.mask ?? "") || style.window !== undefined;
  if (windows) return [{}, { opset: 25 }, { capacity: 40, keepMask: true }];
  return name === "plain" ? [{}, { keepMask: true }, { capacity: 32 }] : [{}];
}

for (const [at, [name, style]] of Object.entries(styles).entries()) {
  test(name, async () => {
    for (const seed of seedsFor(at)) {
      const model = styledDecoder(style, seed);
      for (const options of optionsFor(name, style)) {
        const where = `seed ${seed}: ${JSON.stringify(sizesOf(style, seed))}`;
        const { model: rewritten, report } = rewrite(model, options);
        const bytes = writeModel(rewritten);
        const capacity = typeof report.capacity === "number" ? report.capacity : undefined;
        const check = await checkRewrite({ model, original: writeModel(model), rewritten: bytes, capacity });
        expect(check.passed, `${where} ${JSON.stringify(check.steps)}`).toBe(true);
        expect(Math.max(...check.steps.map(({ difference }) => difference)), where).toBeLessThan(
          style.half === true ? 3e-2 : 1e-4,
        );
        expect(check.steps.length, where).toBeGreaterThan(5);
        const session = await InferenceSession.create(bytes, { backend: "reference", inPlace: "require" });
        const { caches } = session.explain({ json: true });
        expect(caches.map(({ op, inPlace }) => [op, inPlace])).toEqual(caches.map(() => ["TensorScatter", true]));
        expect(caches.length, where).toBe(report.caches.length);
        const { layers } = sizesOf(style, seed);
        const each = style.growth === "side-by-side" ? 1 : 2;
        expect(caches.length, where).toBe(each * (style.shared === true ? layers - 1 : layers));
        await session.release();
      }
    }
  });
}
