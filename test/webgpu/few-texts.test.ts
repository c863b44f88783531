// A step of a few texts on WebGPU is the step of one text: as many dispatches by the same kernels, each in its variant for 2, 4 or 8 rows, on linear caches and on pages, with 16 KiB of
// workgroup memory and without subgroups. Each text has the logits that it has alone. Weights of 4 bits with subgroups in the tests, all kinds in the soak.
import { describe, expect, test } from "vitest";
import { PagedState } from "../../src/cache/paged-state.js";
import { pages } from "../../src/cache/pages.js";
import { publishedDecoder } from "../../tools/demo/published-decoder.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";
import { noWebgpu } from "../support/backends.js";
import { distance } from "../support/compare.js";
import { tokenFeeds } from "../support/decoding.js";
import { deviceOf, listingGpu, PlacedSession, proxied } from "../support/gpu.js";
import { soak } from "../support/soak.js";

const sizes = {
  layers: soak ? 2 : 1,
  hidden: 512,
  heads: 8,
  keyValueHeads: 4,
  headSize: 32,
  intermediate: 768,
  vocabulary: 200,
  positions: 64,
  ropeTheta: 1e6,
  seed: 3,
};

/** The pipelines of all dispatches so far, by name. */
const dispatched: string[] = [];

/** A GPU whose dispatches are listed, with 16 KiB of workgroup memory: 8 rows of the model would fill them. */
const place = PlacedSession.place(
  listingGpu(
    dispatched,
    deviceOf((device) =>
      proxied(device, { limits: proxied(device.limits, { maxComputeWorkgroupStorageSize: 16_384 }) }),
    ),
  ),
);

/** What a step of so many texts dispatches, and each text's logits. */
interface Step {
  readonly names: readonly string[];
  readonly logits: readonly (readonly number[])[];
}

const prompt = (text: number): number[] => [3 + text, 7, 1 + 2 * text];
const next = (text: number): number => (31 * text + 5) % sizes.vocabulary;
const range = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

async function linearStep(session: PlacedSession, count: number): Promise<Step> {
  const state = session.createState({ dims: { batch: count, capacity: 8 } });
  const run = async (tokens: number[][]): Promise<number[]> => {
    const { logits } = await session.run(tokenFeeds(tokens, state.lengths), ["logits"], { state });
    return Array.from((await logits.getData()) as Float32Array);
  };
  await run(range(count).map(prompt));
  await run(range(count).map((text) => [next(text)]));
  dispatched.length = 0;
  const logits = await run(range(count).map((text) => [next(text + 1)]));
  const names = [...dispatched];
  state.release();
  return {
    names,
    logits: range(count).map((text) => logits.slice(text * sizes.vocabulary).slice(0, sizes.vocabulary)),
  };
}

async function pagedStep(session: PlacedSession, count: number): Promise<Step> {
  const pool = new PagedState(session, { blocks: 2 * count, blockSize: 4 });
  const sequences = range(count).map(() => pool.add());
  const run = (tokensOf: (text: number) => number[]): ReturnType<PagedState["step"]> =>
    pool.step(sequences.map((sequence, text) => ({ sequence, tokens: tokensOf(text) })));
  await run(prompt);
  await run((text) => [next(text)]);
  dispatched.length = 0;
  const made = await run((text) => [next(text + 1)]);
  const names = [...dispatched];
  pool.release();
  return { names, logits: made.map(({ rows }) => Array.from(rows).slice(-sizes.vocabulary)) };
}

const kinds = [
  { weights: { bits: 4, blockSize: 32 } as const, cache: "linear" },
  { weights: { bits: 4, blockSize: 32 } as const, cache: "paged" },
  { weights: "plain" as const, cache: "paged" },
  { weights: { bits: 4, blockSize: 32 } as const, cache: "paged", subgroups: false },
] as const;

/** Kernels that have variants. */
const varied = /^(projection|gatedProjection)/;

describe.skipIf(noWebgpu !== undefined)("few texts on WebGPU", () => {
  test.each(soak ? kinds : kinds.slice(0, 2))(
    "2, 4 and 8 texts take the dispatches of one: %o",
    async ({ weights, cache, ...more }) => {
      const model = writeModel(publishedDecoder(sizes, { type: "float32", weights }));
      const options: SessionOptions = {
        backend: "webgpu",
        inPlace: "require",
        ...(cache === "paged" ? { change: pages({ packed: true }) } : { rewrite: "auto" }),
        ...("subgroups" in more && { webgpu: { subgroups: more.subgroups } }),
      };
      const session = await PlacedSession.on(place, model, options);
      const stepOf = cache === "paged" ? pagedStep : linearStep;
      const one = await stepOf(session, 1);
      expect(one.names.filter((name) => varied.test(name))).toHaveLength(4 * sizes.layers + 1);
      // Three texts are padded up, and the row that is there for nothing goes nowhere.
      const steps = new Map<number, Step>();
      for (const count of [2, 3, 4, 8]) {
        const { names, logits } = await stepOf(session, count);
        steps.set(count, { names, logits });
        const variant = count === 3 ? 4 : count;
        expect(names, `${count} texts`).toEqual(
          one.names.map((name) => (varied.test(name) ? `${name}${variant}` : name)),
        );
        expect(distance(logits[0], one.logits[0]), `${count} texts`).toBeLessThan(1e-3);
      }
      const [three, eight] = [steps.get(3)!.logits, steps.get(8)!.logits];
      for (const text of range(3)) expect(distance(three[text], eight[text])).toBeLessThan(1e-3);
      await session.release();
    },
  );
});
