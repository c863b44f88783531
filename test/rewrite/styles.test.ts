// Decoders in many styles, rewritten and run beside the original: prefill, decoding, rewinding, prompts of different lengths in one batch.
import { expect, test } from "vitest";
import { checkRewrite } from "../../src/cli/rewrite-check.js";
import { InferenceSession } from "../../src/entry/node.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../src/rewrite/rewrite.js";
import { type Style, styledDecoder } from "./styles.js";

const styles: Readonly<Record<string, Style>> = {
  plain: {},
  "opset 13": { opset: 13, positions: "none", mask: "subtract" },
  "keys and values by length": { layout: "BSNH" },
  "caches of three dimensions": { layout: "BSE" },
  "keys stored transposed": { layout: "BNHS" },
  "an Attention node": { opset: 24, attend: "node" },
  "an Attention node of three dimensions": { opset: 24, attend: "node-packed", layout: "BSE" },
  "an Attention node of three dimensions, joined heads": { opset: 24, attend: "node-packed", layout: "BSNH" },
  "an Attention node that shares heads itself": { opset: 23, attend: "node", repeat: "none" },
  "heads repeated by Tile": { repeat: "tile" },
  "heads repeated by Concat": { repeat: "concat" },
  "heads in groups of five dimensions": { attend: "five" },
  "batch and heads joined": { attend: "merged" },
  "a guard against NaN": { attend: "guarded" },
  "a softcap": { attend: "capped" },
  "queries scaled beforehand": { attend: "scaled-queries" },
  "scores divided": { attend: "div" },
  "a triangle of −∞": { mask: "triu", positions: "row" },
  "a mask that is subtracted": { mask: "subtract" },
  "a table of truths, sliced": { mask: "tril-gather" },
  "scores chosen by the mask": { mask: "where-scores" },
  "a window": { mask: "window" },
  "a window, keys by length": { mask: "window", layout: "BSNH" },
  chunks: { mask: "chunk" },
  "linear biases": { mask: "alibi" },
  "positions counted from the mask": { positions: "cumsum" },
  "positions as a row": { positions: "row" },
  "positions as a list": { positions: "list" },
  "no positions": { positions: "none" },
  "one token at a time": { tokens: 1, mask: "none" },
  "one token at a time, with padding": { tokens: 1, mask: "padding-only" },
  "one token at a time, one sample": { tokens: 1, batch: 1, mask: "none", positions: "row" },
  "one sample": { batch: 1 },
  "rows scattered along the first axis": { growth: "scatter-rows", positions: "row" },
  "rows scattered at full indices": { growth: "scatter-nd", positions: "row" },
  "rows scattered by ScatterElements": { growth: "scatter-elements", positions: "row" },
  "rows scattered from a start": { growth: "scatter-elements", positions: "row", counter: "start" },
  "rows scattered from row 0 on": { growth: "scatter-rows", positions: "row", counter: "arange" },
  "rows scattered, keys by length": { growth: "scatter-elements", layout: "BSNH", positions: "list" },
  "a static cache with a window": { growth: "scatter-nd", mask: "window", positions: "row" },
  "Attention with its cache inside": { opset: 24, growth: "attention" },
  "Attention with its cache inside, causal by itself": { opset: 24, growth: "attention", mask: "none" },
  "Attention with its cache inside, three dimensions": { opset: 23, growth: "attention-packed" },
  GroupQueryAttention: { growth: "gqa", mask: "none" },
  "GroupQueryAttention, packed": { growth: "gqa-packed", mask: "none" },
  "GroupQueryAttention with rotary embedding": { growth: "gqa", rotary: true, positions: "none", mask: "none" },
  "GroupQueryAttention, packed, rotary, window, softcap": {
    growth: "gqa-packed",
    rotary: true,
    positions: "none",
    mask: "none",
    window: 3,
    attend: "capped",
  },
  MultiHeadAttention: { growth: "mha" },
  "MultiHeadAttention, causal by itself": { growth: "mha", mask: "none" },
};

for (const [name, style] of Object.entries(styles)) {
  test(name, async () => {
    const model = styledDecoder(style);
    for (const options of [{}, { opset: 25 }, { capacity: 32 }] as const) {
      const { model: rewritten, report } = rewrite(model, options);
      const capacity = typeof report.capacity === "number" ? report.capacity : undefined;
      const check = await checkRewrite({
        model,
        original: writeModel(model),
        rewritten: writeModel(rewritten),
        capacity,
      });
      expect(check.passed, JSON.stringify(check.steps)).toBe(true);
      expect(check.steps.length).toBeGreaterThan(style.counter === "arange" ? 0 : 5);
      const session = await InferenceSession.create(writeModel(rewritten), {
        backend: "reference",
        inPlace: "require",
      });
      const { caches } = session.explain({ json: true });
      expect(caches.map(({ op, inPlace }) => [op, inPlace])).toEqual(caches.map(() => ["TensorScatter", true]));
      expect(caches.length).toBe(4);
    }
  });
}
