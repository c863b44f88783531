// The embedded model on a GPU writes what it writes on WASM, greedily: a few tokens in the tests, many in the soak and in more ways.
import { describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { noWebgpu } from "../support/backends.js";
import { soak } from "../support/soak.js";

const ways: readonly (readonly [name: string, options: object])[] = [
  ["on linear caches", {}],
  ["without subgroups", { webgpu: { subgroups: false } }],
  ["on pages", { cache: "paged" }],
];

describe.skipIf(noWebgpu !== undefined)("on a GPU", () => {
  test.each(soak ? ways : ways.slice(0, 1))("the embedded model's text, %s", async (_, options) => {
    const generating = { maxTokens: soak ? 64 : 5, temperature: 0 };
    const texts = [];
    for (const backend of ["wasm", "webgpu"] as const) {
      const lm = await CausalLM.load(undefined, { backend, ...options });
      const generation = lm.generate("Once upon a time", generating);
      texts.push(await generation.text());
      // The device draws the tokens, some of them ahead.
      const isAhead = backend === "webgpu";
      expect(generation.summary.tokensInFlight > 2).toBe(isAhead);
      await lm.release();
    }
    expect(texts[1]).toBe(texts[0]);
    expect(texts[0].length).toBeGreaterThan(soak ? 100 : 6);
  });
});
