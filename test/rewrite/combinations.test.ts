// Styles put together at random: what is rewritten gives what the original gives, and what is refused says why.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { seededRandom } from "../../src/graph/call.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { checkRewrite } from "./check.js";
import { type Style, styledDecoder } from "./styles.js";
import { soak } from "../support/soak.js";

const seeds = soak ? 800 : 14;

function randomStyle(seed: number): Style {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const often = <T>(usual: T, others: readonly T[]): T => (random() < 0.5 ? usual : pick(others));
  const growth = often("concat", [
    "scatter-rows",
    "scatter-nd",
    "scatter-elements",
    "scatter-slice",
    "scatter-joined",
    "attention",
    "attention-packed",
    "gqa",
    "gqa-packed",
    "mha",
    "side-by-side",
  ] as const);
  const isStatic = growth.startsWith("scatter");
  const inside = ["attention", "attention-packed", "gqa", "gqa-packed", "mha", "side-by-side"].includes(growth);
  const layout = inside
    ? "BNSH"
    : isStatic && growth !== "scatter-nd"
      ? pick(["BNSH", "BSNH"] as const)
      : isStatic
        ? "BNSH"
        : pick(["BNSH", "BSNH", "BSE", "BNHS"] as const);
  const attend = inside
    ? "written"
    : pick(["written", "node", "five", "merged", "guarded", "capped", "scaled-queries", "div"] as const);
  const masks = ["causal", "triu", "subtract", "window", "chunk", "alibi", "buckets", "input", "where-scores"] as const;
  const grownMasks = [...masks, "joined-triangle", "tril-gather", "random"] as const;
  const staticMasks = ["causal", "window", "chunk", "random"] as const;
  const usual = isStatic ? pick(staticMasks) : pick(grownMasks);
  const mask = growth.startsWith("gqa") ? "none" : usual;
  const usesMask = ["causal", "subtract", "window", "alibi", "buckets", "joined-triangle", "tril-gather"].includes(
    mask,
  );
  const positions = isStatic
    ? pick(["row", "list"] as const)
    : pick([
        "input",
        "list",
        "row",
        "none",
        "cut",
        "cut-row",
        "looked-up",
        "computed",
        ...(usesMask ? (["cumsum"] as const) : []),
      ] as const);
  const rotary = growth.startsWith("gqa") && random() < 0.5;
  return {
    opset: attend === "node" || growth.startsWith("attention") ? 24 : pick([14, 16, 18, 20, 21, 23, 24]),
    growth,
    layout,
    attend: attend === "node" && mask === "where-scores" ? "written" : attend,
    mask: mask === "where-scores" && (attend === "five" || attend === "merged" || inside) ? "causal" : mask,
    maskSeed: seed,
    positions: rotary ? "none" : positions,
    rotary,
    repeat: pick(["expand", "tile", "concat", "gather", "split"]),
    turned: growth === "concat" && ["BNSH", "BSNH"].includes(layout) && random() < 0.2,
    unnamed: random() < 0.2,
    last: random() < 0.2,
    cross: !isStatic && random() < 0.15,
    shared: growth === "concat" && layout === "BNSH" && random() < 0.15,
    ...(isStatic ? { counter: pick(["cache_position", "start"]) } : {}),
    ...(random() < 0.2 ? { declared: pick(["anonymous", "sum", "no outputs"]) } : {}),
    ...(growth === "concat" && attend !== "node" && random() < 0.2 ? { sizes: { valueHead: 6 } } : {}),
  };
}

test(`${seeds} random styles`, async () => {
  let rewritten = 0;
  const reasons = new Map<string, number>();
  for (let seed = 1; seed <= seeds; seed++) {
    const style = randomStyle(seed);
    const model = styledDecoder(style, seed);
    const where = `seed ${seed}: ${JSON.stringify(style)}`;
    let result: ReturnType<typeof rewrite>;
    try {
      result = rewrite(model);
    } catch (error) {
      expect(error, `${where} ${String(error)}`).toBeInstanceOf(InsituError);
      expect((error as InsituError).code, `${where} ${String(error)}`).not.toBe("internal");
      const reason = String(error).replaceAll(/"[^"]*"/g, "…");
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      if (soak) console.log(`${where}\n${String(error)}`);
      continue;
    }
    rewritten++;
    const capacity = typeof result.report.capacity === "number" ? result.report.capacity : undefined;
    const bytes = writeModel(result.model);
    const check = await checkRewrite({ model, original: writeModel(model), rewritten: bytes, capacity, seed });
    const worst = Math.max(...check.steps.map(({ difference }) => difference));
    expect(worst, `${where} ${JSON.stringify(check.steps)}`).toBeLessThan(1e-4);
  }
  console.log(
    [`${rewritten} of ${seeds} rewritten`, ...[...reasons].map(([why, count]) => `${count} × ${why}`)].join("\n"),
  );
  expect(rewritten).toBeGreaterThan(0.8 * seeds);
}, 600_000);
