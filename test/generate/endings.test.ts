// How texts end: against a loop over whole texts written here, and a batch's texts, log-probabilities and reasons against those of single
// texts, whatever the caches are. The tests have every second prompt, and the soak all of them.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import type { BatchToken } from "../../src/generate/batch.js";
import type { HeldConstraint, JsonSchema } from "../../packages/choice/constraint.js";
import { Ending } from "../../src/engine/ending.js";
import type { WhenFull } from "../../src/engine/text-ask.js";
import { type FinishReason, finishReasons, type GeneratedToken } from "../../src/generate/generation.js";
import { type GenerateOptions, readGenerating } from "../../src/generate/options.js";
import { hubFolder, tie, tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

/** Tokens of one and of several characters. */
const spellings = ["a", "b", "ab", "ba", "bb", "c", ""];
const decode = (tokens: readonly number[]): string => tokens.map((token) => spellings[token]).join("");

/** A text's end, found by looking at all of it again with each token. */
function endOf(
  tokens: readonly number[],
  { stop, ends, most, room, whenFull }: Drawn,
): { text: string; finish: FinishReason; count: number } {
  for (let count = 1; count <= tokens.length; count++) {
    const text = decode(tokens.slice(0, count));
    if (ends.includes(tokens[count - 1])) return { text: decode(tokens.slice(0, count - 1)), finish: "end", count };
    const stops = stop.map((each) => text.indexOf(each)).filter((at) => at >= 0);
    if (stops.length > 0) return { text: text.slice(0, Math.min(...stops)), finish: "stop", count };
    if (count === most) return { text, finish: "length", count };
    if (count >= room && whenFull !== "slide") return { text, finish: "context", count };
  }
  return { text: decode(tokens), finish: "unfinished", count: tokens.length };
}

interface Drawn {
  readonly stop: string[];
  readonly ends: number[];
  readonly most: number;
  readonly room: number;
  readonly whenFull: WhenFull;
}

const drawn: fc.Arbitrary<Drawn> = fc.record({
  stop: fc.array(fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 }), { maxLength: 3 }),
  ends: fc.subarray([5, 6]),
  most: fc.integer({ min: 1, max: 12 }),
  room: fc.integer({ min: 1, max: 12 }),
  whenFull: fc.constantFrom<WhenFull>("stop", "slide", "error"),
});

test("a text ends where one that is looked at whole does, for the same reason, with the same text", () => {
  const seen = new Set<FinishReason>();
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: spellings.length - 1 }), { minLength: 1, maxLength: 14 }),
      drawn,
      (tokens, draw) => {
        const constrain = (schema: JsonSchema): Promise<HeldConstraint> => lm.constrain({ kind: "schema", schema });
        const { constraint: _, ...common } = readGenerating(
          {},
          { sampling: {}, endTokens: [] },
          lm.tokenizer,
          constrain,
          false,
        );
        const { stop, ends, most, room, whenFull } = draw;
        const options = { ...common, stop, endTokens: new Set(ends), maxTokens: most, whenFull };
        const ending = new Ending({ ...options, prompt: [], decoder: { decode } });
        let [text, count] = ["", 0];
        let finish: FinishReason = "unfinished";
        for (const token of tokens) {
          const next = ending.push(token, ++count >= room);
          text += next.text;
          if (next.end === undefined) continue;
          finish = finishReasons[next.end];
          break;
        }
        const wanted = endOf(tokens, draw);
        expect({ finish, count }).toEqual({ finish: wanted.finish, count: wanted.count });
        // What may become a stop string is held back while the text goes on.
        if (finish === "unfinished") expect(wanted.text.startsWith(text)).toBe(true);
        else expect(text).toBe(wanted.text);
        seen.add(finish);
      },
    ),
    { numRuns: soak ? 4000 : 1000, seed: Number(process.env["INSITU_SEED"] ?? 977) },
  );
  expect([...seen].sort()).toEqual(["context", "end", "length", "stop", "unfinished"]);
});

const prompts = [
  "Once upon a time there was a king who had",
  "The wolf",
  "In a little house at the edge of the forest there lived an old woman, and she said to her daughter:",
  "There was once a miller who was poor, but he had a beautiful daughter.",
  "The queen said:",
  "And when the sun rose",
  '"Dear father," said the boy, "I will go into the forest and',
  "A",
  "Hans took the goose under his arm and went on his way; and when he had gone a good way, he came to a village",
  "The two brothers went",
  "Far away, where the swallows fly when our winter comes on,",
  "The end of the",
].filter((_, at) => soak || at % 2 === 1);

let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { inPlace: "require" });
});
afterAll(() => lm.release());

/** One text by itself: its tokens with the one that ended it, as it would have been made had it not. */
interface Single {
  readonly tokens: readonly GeneratedToken[];
  readonly text: string;
  readonly finishReason: FinishReason;
}

async function single(model: CausalLM, prompt: string, options: GenerateOptions): Promise<Single> {
  const generation = model.generate(prompt, options);
  const tokens = await tokensOf(generation);
  const { finishReason, newTokens } = generation.summary;
  if (finishReason !== "end") return { tokens, text: generation.textSoFar, finishReason };
  // The same choices, with nothing that ends them: the next one is the token that did.
  const { stopTokens: _, ...others } = options;
  const through = await tokensOf(model.generate(prompt, { ...others, ignoreEnd: true, maxTokens: newTokens + 1 }));
  return { tokens: through, text: generation.textSoFar, finishReason };
}

/** Compares a batch's texts with single ones: tokens but for ties, log-probabilities, texts and reasons. Which reasons there were. */
async function compare(
  batch: CausalLM,
  alone: CausalLM,
  options: GenerateOptions,
  tolerance: number,
): Promise<Map<FinishReason, number>> {
  const made: BatchToken[][] = prompts.map(() => []);
  for await (const token of batch.generateBatch(prompts, { ...options, logprobs: 2 })) made[token.sample].push(token);
  const reasons = new Map<FinishReason, number>();
  for (const [index, prompt] of prompts.entries()) {
    const seed = options.seed === undefined ? {} : { seed: options.seed + index };
    const wanted = await single(alone, prompt, { ...options, ...seed, logprobs: 2 });
    const [tokens, what] = [made[index], `prompt ${index}`];
    const differs = wanted.tokens.findIndex(({ token }, at) => tokens[at]?.token !== token);
    const shared = differs < 0 ? wanted.tokens.length : differs;
    for (let at = 0; at < shared; at++) {
      const [ours, theirs] = [tokens[at], wanted.tokens[at]];
      expect(Math.abs(ours.logprob! - theirs.logprob!), `${what}, log-probability ${at}`).toBeLessThan(tolerance);
      for (const [rank, { logprob }] of theirs.top!.entries())
        expect(Math.abs(ours.top![rank].logprob - logprob), `${what}, rank ${rank} of ${at}`).toBeLessThan(tolerance);
    }
    if (differs >= 0) {
      const [best, second] = wanted.tokens[differs].top!;
      console.log(`${what}: differs from step ${differs} on, at a tie`);
      expect(options.temperature, what).toBe(0);
      expect(best.logprob - second.logprob, `${what}, step ${differs}`).toBeLessThan(tie);
      continue;
    }
    expect(tokens.length, what).toBe(wanted.tokens.length);
    expect(tokens.map(({ text }) => text).join(""), what).toBe(wanted.text);
    expect(
      tokens.map(({ finishReason }) => finishReason),
      what,
    ).toEqual([...tokens.slice(1).map(() => undefined), wanted.finishReason]);
    reasons.set(wanted.finishReason, (reasons.get(wanted.finishReason) ?? 0) + 1);
  }
  return reasons;
}

const ways: [string, GenerateOptions, readonly FinishReason[]][] = [
  ["tokens that end them", { temperature: 0, maxTokens: 24, stopTokens: ["."] }, ["end", "length"]],
  ["stop strings", { temperature: 0, maxTokens: 16, stop: ["he ", ", and"] }, ["length", "stop"]],
  [
    "all of that, by chance",
    { temperature: 0.8, seed: 11, maxTokens: 14, stop: " of", stopTokens: [","] },
    ["end", "length", "stop"],
  ],
];

describe.each(ways)("texts that end by %s", (_, options, reasons) => {
  test("in one state of linear caches", async () => {
    const found = await compare(lm, lm, options, 1e-3);
    expect([...found.keys()].sort()).toEqual(reasons);
  });

  test("on pages", async () => {
    const paged = await CausalLM.load(undefined, { inPlace: "require", cache: "paged" });
    try {
      const found = await compare(paged, lm, options, 1e-3);
      expect([...found.keys()].sort()).toEqual(reasons);
    } finally {
      await paged.release();
    }
  });

  test("one by one, with guesses that are checked", async () => {
    for (const prompt of prompts) {
      const plain = lm.generate(prompt, options);
      const guessing = lm.generate(prompt, { ...options, speculate: { ngram: 2, draft: 5, adaptive: false } });
      expect([await guessing.text(), guessing.summary.finishReason]).toEqual([
        await plain.text(),
        plain.summary.finishReason,
      ]);
      expect(guessing.summary.newTokens).toBe(plain.summary.newTokens);
    }
  });
});

test("in caches that grow, where shorter prompts are padded", async () => {
  const folder = hubFolder("llama_op24");
  const growing = await CausalLM.load(folder.path, { rewrite: "never", threads: 1 });
  try {
    // Each text ends at a token that some other text makes.
    const common = (await tokensOf(growing.generate(prompts[0], { temperature: 0, maxTokens: 6 }))).at(-1)!.token;
    const options = { temperature: 0, maxTokens: 12, ignoreEnd: true, stopTokens: [common] };
    const found = await compare(growing, growing, options, 1e-3);
    expect(found.get("end")).toBeGreaterThan(0);
  } finally {
    await growing.release();
    folder.remove();
  }
});

test("whoever reads a prompt hears that nobody wants the text any more", async () => {
  const slow = await CausalLM.load(undefined, { inPlace: "require", threads: 1, chunk: 1, keep: 0 });
  try {
    const begin: [string, (signal: AbortSignal) => Promise<unknown>][] = [
      ["generate", (signal) => slow.generate(prompts[1], { signal }).text()],
      ["generateBatch", (signal) => slow.generateBatch(prompts, { signal }).next()],
      ["samples", (signal) => slow.samples(prompts[1], 2, { signal })],
      ["beamSearch", (signal) => slow.beamSearch(prompts[1], { signal, maxTokens: 2 })],
    ];
    for (const [name, made] of begin) {
      const abort = new AbortController();
      const reason = new Error(`enough of ${name}`);
      // An event that comes in while the prompt is read: the first is served before anything is.
      setImmediate(() => setImmediate(() => setImmediate(() => abort.abort(reason))));
      await expect(made(abort.signal), name).rejects.toBe(reason);
    }
    // Nothing was left behind: the same texts can be made.
    expect(await slow.generate(prompts[0], { temperature: 0, maxTokens: 3 }).text()).not.toBe("");
  } finally {
    await slow.release();
  }
});
