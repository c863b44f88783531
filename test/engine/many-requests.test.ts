// Many requests on WASM, in random orders, on pages that do not suffice: each text is the one that is made alone, bit for bit, whatever is read beside it.
// The tests send some hundreds, the soak twenty thousand.
import { expect, test } from "vitest";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import type { TokenConstraint } from "../../packages/choice/constraint.js";
import { CausalLM } from "../../src/entry/node.js";
import type { GenerateOptions } from "../../src/generate/options.js";
import { writeModel } from "../../src/onnx/write.js";
import { createEngine } from "../../packages/serve/running/create-engine.js";
import { hubFolder } from "../generate/support.js";
import { type Heard, submit, tokensAlone } from "../serve/engine-support.js";
import { soak } from "../support/soak.js";

const count = soak ? 20_000 : 300;
const seed = Number(process.env["INSITU_SEED"] ?? (soak ? Math.floor(Math.random() * 2 ** 31) : 30));

/** Tokens of one kind after the other: by their number, in turns. */
const inTurns = (): TokenConstraint => {
  let length = 0;
  return {
    fillMask(mask) {
      mask.fill(length % 2 === 0 ? 0x55555555 : 0xaaaaaaaa);
      return true;
    },
    accept(token) {
      return token % 2 === length++ % 2;
    },
    rollback: (tokens) => void (length -= tokens),
    get terminated() {
      return false;
    },
  };
};

interface Kind {
  readonly prompt: readonly number[];
  readonly sampling: GenerateOptions;
  readonly maxTokens: number;
  readonly isConstrained: boolean;
}

test(`${count} requests beside each other are those that are made alone`, async () => {
  console.log(`INSITU_SEED=${seed}`);
  let state = seed >>> 0;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const folder = hubFolder("llama", {
    "onnx/model.onnx": writeModel(generatedDecoder({ ...smallSizes, vocabulary: 256 })),
    "generation_config.json": { eos_token_id: 256 },
  });
  const shape = { cache: "paged", batchInvariant: true, threads: 1, context: 64, blockSize: 4, keep: 0 } as const;
  const model = await CausalLM.load(folder.path, { ...shape, blocks: 40 });
  const alone = await CausalLM.load(folder.path, { ...shape, blocks: 64 });
  const beginnings = [[], [9, 8, 7, 6, 5, 4, 3, 2], Array.from({ length: 17 }, (_, at) => 40 + at)];
  const kinds = Array.from({ length: soak ? 400 : 60 }, (_, at): Kind => {
    const own = Array.from({ length: 1 + random(14) }, () => random(256));
    const ways = [
      {},
      { temperature: 1.2, seed: at },
      { temperature: 0.9, topK: 9, topP: 0.8, repetitionPenalty: 1.2, seed: at },
    ];
    return {
      prompt: [...beginnings[random(3)], ...own],
      sampling: ways[random(3)],
      maxTokens: 1 + random(20),
      isConstrained: random(5) === 0,
    };
  });
  const wanted: number[][] = [];
  for (const { prompt, sampling, maxTokens, isConstrained } of kinds)
    wanted.push(
      await tokensAlone(alone, prompt, { maxTokens, ...sampling, ...(isConstrained ? { constraint: inTurns() } : {}) }),
    );
  const engine = createEngine(model, { tokenBudget: 24, mostRunning: 8, mostWaiting: 64, mostPreemptions: 2 });
  const wrong: string[] = [];
  let [whole, cancelled] = [0, 0];
  const open = new Set<Promise<void>>();
  for (let request = 0; request < count; request++) {
    const kind = random(kinds.length);
    const { prompt, sampling, maxTokens, isConstrained } = kinds[kind];
    const heard: Heard = submit(engine, {
      prompt,
      maxTokens,
      sampling,
      tenant: `tenant ${random(4)}`,
      salt: `salt ${random(2)}`,
      priority: random(8) === 0 ? 1 : 0,
      ...(isConstrained ? { constraint: inTurns() } : {}),
    });
    const compare = (isWhole: boolean): void => {
      const expected = isWhole ? wanted[kind] : wanted[kind].slice(0, heard.tokens.length);
      if (heard.error !== undefined || heard.tokens.join() !== expected.join())
        wrong.push(`request ${request} of kind ${kind}: ${heard.error?.message ?? heard.tokens.join()}`);
    };
    const over = heard.over.then(() => {
      whole++;
      compare(true);
    });
    if (random(12) === 0) {
      for (let turns = random(10); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      if (heard.end === undefined) {
        cancelled++;
        heard.text.cancel();
        compare(false);
        continue;
      }
    }
    open.add(over);
    void over.then(() => open.delete(over));
    while (open.size >= 24) await Promise.race(open);
  }
  await Promise.all(open);
  expect(wrong).toEqual([]);
  const { preemptions, reusedTokens, steps } = engine.figures();
  console.log({ whole, cancelled, preemptions, reusedTokens, steps });
  expect(whole + cancelled).toBe(count);
  expect(preemptions).toBeGreaterThan(0);
  expect(reusedTokens).toBeGreaterThan(0);
  await engine.close();
  expect(engine.figures()).toMatchObject({ running: 0, waiting: 0, blocksUsed: 0 });
  await Promise.all([model.release(), alone.release()]);
  folder.remove();
});
