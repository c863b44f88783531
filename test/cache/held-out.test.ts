// What bytes in pages cost: the held-out loss of the embedded model with pages of float32, int8 and float8. The text is what training never
// saw: every fiftieth run of ten paragraphs, in windows of 512 tokens.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { expect, test } from "vitest";
import type { CacheType } from "../../packages/rewrite/page-names.js";
import { CausalLM } from "../../src/entry/node.js";
import { logSumExp } from "../../packages/choice/log-probability.js";
import { soak } from "../support/soak.js";

const length = 512;
const vocabulary = 4096;
/** All there are, or the first. */
const windows = soak ? Infinity : 1;
/** Tokens that are read in one run: rows of other runs are read from the pages, where they are bytes. */
const chunk = 64;

/** The mean of −log p over the tokens of the held-out windows, each window on pages of its own. */
async function heldOutLoss(
  cacheType: CacheType,
): Promise<{ readonly loss: number; readonly count: number; readonly bytes: number }> {
  const lm = await CausalLM.load(undefined, { inPlace: "require", cache: "paged", cacheType, context: length });
  const path = fileURLToPath(new URL("held-out.txt.br", import.meta.url));
  const text = brotliDecompressSync(readFileSync(path)).toString("utf8");
  const tokens = text
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => [...lm.tokenizer.encode(`${line}\n`)]);
  const pages = lm.pages!;
  let [sum, count] = [0, 0];
  for (let start = 0; start + 1 + length < tokens.length && count < windows; start += length, count++) {
    const sequence = pages.add();
    for (let at = 0; at < length; at += chunk) {
      const [{ rows }] = await pages.step([{ sequence, tokens: tokens.slice(start + at, start + at + chunk) }]);
      for (let row = 0; row < chunk; row++) {
        const logits = rows.subarray(row * vocabulary, (row + 1) * vocabulary);
        sum += logSumExp(logits) - logits[tokens[start + at + row + 1]];
      }
    }
    sequence.release();
  }
  const { blockBytes } = pages;
  await lm.release();
  return { loss: sum / (count * length), count, bytes: blockBytes };
}

test("bytes in pages change the held-out loss by less than 1 %", async () => {
  const plain = await heldOutLoss("same");
  if (soak) expect(plain.loss).toBeCloseTo(3.0241, 3);
  for (const type of ["int8", "float8e4m3fn", "float8e5m2"] as const) {
    const { loss, bytes } = await heldOutLoss(type);
    const change = (loss - plain.loss) / plain.loss;
    console.log(
      `${type}: held-out loss ${loss.toFixed(4)} in ${plain.count} windows, ${plain.loss.toFixed(4)} with float32: ${(change * 100).toFixed(3)} %; ${bytes} bytes a block, ${plain.bytes} with float32`,
    );
    expect(Math.abs(change)).toBeLessThan(0.01);
    expect(plain.bytes / bytes).toBeGreaterThan(3.5);
  }
});
