// Random conversations on one pool: texts come, fork, go on together, go back and go, and each run's logits are those of the same text alone
// in a linear cache.
import { expect, test } from "vitest";
import { PagedState } from "../../src/cache/paged-state.js";
import type { Sequence } from "../../src/cache/sequence.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { step } from "../support/decoding.js";
import { decoderBytes, distance, pagedSession } from "./support.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 7);

test.each([
  { blockSize: 4, caches: "rows", layout: "Norm" },
  { blockSize: 7, caches: "heads", layout: "NHSD" },
] as const)("blocks of $blockSize, $layout", async ({ blockSize, caches, layout }) => {
  const random = seededRandom(seed);
  const whole = (below: number): number => Math.floor(random() * below);
  const bytes = decoderBytes({ caches });
  const linear = await InferenceSession.create(bytes);
  const session = await pagedSession(bytes, { layout });
  const state = new PagedState(session, { blocks: 48, blockSize });
  const live: { sequence: Sequence; tokens: number[] }[] = [];
  const told: number[][] = [];
  let [worst, runs, shared] = [0, 0, 0];
  const alone = async (tokens: readonly number[]): Promise<Float32Array> => {
    const cache = linear.createState({ dims: { capacity: tokens.length } });
    const logits = await step(linear, cache, tokens);
    cache.release();
    return logits;
  };
  for (let at = 0; at < (soak ? 600 : 60); at++) {
    const choice = random();
    if (live.length < 2 || (choice < 0.15 && live.length < 6)) {
      // A new text begins like one that was there, often.
      const old = told[whole(told.length)] ?? [];
      const text = [...old.slice(0, whole(old.length + 1)), ...Array.from({ length: 1 + whole(12) }, () => whole(128))];
      const sequence = state.add(undefined, text);
      shared += sequence.length;
      const [{ last }] = await state.step([{ sequence, tokens: text.slice(sequence.length) }]);
      worst = Math.max(worst, distance(last, await alone(text)));
      live.push({ sequence, tokens: text });
      told.push(text);
    } else if (choice < 0.3 && live.length < 6) {
      const { sequence, tokens } = live[whole(live.length)];
      live.push({ sequence: sequence.fork(), tokens: [...tokens] });
    } else if (choice < 0.4) {
      const [{ sequence, tokens }] = live.splice(whole(live.length), 1);
      told.push(tokens);
      sequence.release();
    } else if (choice < 0.5) {
      const text = live[whole(live.length)];
      text.tokens.length = 1 + whole(text.tokens.length);
      text.sequence.truncate(text.tokens.length);
    } else {
      const chosen = live.filter(() => random() < 0.7);
      if (chosen.length === 0) continue;
      const added = chosen.map(() => Array.from({ length: random() < 0.7 ? 1 : 1 + whole(9) }, () => whole(128)));
      const out = await state.step(chosen.map(({ sequence }, index) => ({ sequence, tokens: added[index] })));
      for (const [index, text] of chosen.entries()) {
        text.tokens.push(...added[index]);
        worst = Math.max(worst, distance(out[index].last, await alone(text.tokens)));
        if (text.tokens.length > 30) live.splice(live.indexOf(text), 1)[0].sequence.release();
      }
      runs++;
    }
  }
  const { copies } = state.pool.statistics;
  console.log(
    `seed ${seed}: ${runs} runs of several texts, ${shared} rows shared, ${copies} blocks copied, logits within ${worst.toExponential(1)}`,
  );
  expect(worst).toBeLessThan(1e-4);
  expect(Math.min(copies, shared, runs)).toBeGreaterThan(0);
  for (const { sequence } of live) sequence.release();
  expect(state.pool.statistics.used).toBe(0);
  await Promise.all([linear.release(), session.release()]);
});
