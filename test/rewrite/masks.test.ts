// Masks made at random of comparisons between rows: what is rewritten gives what the original gives, and what is refused says why.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { checkRewrite } from "./check.js";
import { type Style, styledDecoder } from "./styles.js";
import { soak } from "../support/soak.js";

const seeds = soak ? 600 : 16;

test(`${seeds} random masks`, async () => {
  let [rewritten, refused] = [0, 0];
  for (let seed = 1; seed <= seeds; seed++) {
    const forms: readonly Partial<Style>[] = [
      {},
      { attend: "node", opset: 24 },
      { layout: "BSNH" },
      { growth: "attention", opset: 24 },
    ];
    const style: Style = {
      mask: "random",
      maskSeed: seed,
      positions: "row",
      sizes: { layers: 1 },
      ...forms[seed % forms.length],
    };
    const model = styledDecoder(style);
    for (const opset of [24, 25] as const) {
      let result: ReturnType<typeof rewrite>;
      try {
        result = rewrite(model, { opset });
      } catch (error) {
        expect(error, `seed ${seed}`).toBeInstanceOf(InsituError);
        expect(String(error), `seed ${seed}`).toMatch(/cache "past\.0\.(key|value)" cannot be rewritten: /);
        refused++;
        continue;
      }
      rewritten++;
      const check = await checkRewrite({
        model,
        original: writeModel(model),
        rewritten: writeModel(result.model),
        capacity: undefined,
        seed,
      });
      const worst = Math.max(...check.steps.map(({ difference }) => difference));
      const found = `seed ${seed}, ${JSON.stringify(style)}: ${result.report.attentions[0].mask}`;
      expect(worst, `${found} ${JSON.stringify(check.steps)}`).toBeLessThan(1e-4);
    }
  }
  console.log(`${rewritten} rewritten, ${refused} refused`);
  expect(rewritten).toBeGreaterThan(seeds / 2);
}, 300_000);
