// Prompts of every length, read in fresh processes by 1, 2 and 3 threads and in several orders, and once with the arena flush against the
// end of the memory: what comes next is what the reference implementation says. Its answers for all lengths are those of one run over a whole text. There
// are two texts, which prompts are the beginnings of by turns: the next one has nothing in common with the last, and is read whole.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CausalLM, InferenceSession } from "../../src/entry/node.js";
import { Decoder } from "../../src/decoder/decoder.js";
import { seededRandom } from "../../src/graph/call.js";
import { atTheEnd, MemoryEnd } from "../support/memory-end.js";
import { embedded, tie, tokensOf } from "./support.js";
import { soak } from "../support/soak.js";

const longest = soak ? 300 : 14;
const seed = Number(process.env["INSITU_SEED"] ?? Date.now() % 100_000);

interface Likely {
  readonly token: number;
  readonly logprob: number;
}

/** The tokens of the prompt at a place in an order of lengths. */
const promptOf = (length: number, place: number): number[] =>
  Array.from({ length }, (_, at) => ((at * 997 + 13 + (place % 2) * 7) % 4000) + 1);
const lengths = Array.from({ length: longest }, (_, at) => at + 1);
/** The logarithms of the probabilities of the next token, for each text by the prompt's length. */
const wanted = [new Map<number, Float64Array>(), new Map<number, Float64Array>()];

beforeAll(async () => {
  const options = { backend: "reference", graphOptimizationLevel: "disabled", inPlace: "never" } as const;
  const session = await InferenceSession.create(join(embedded, "onnx/model.onnx"), options);
  const decoder = new Decoder(session);
  for (const [text, answers] of wanted.entries()) {
    const state = decoder.createState(1, longest);
    const logits = await decoder.run(state, { tokens: [promptOf(longest, text)], positions: [0] });
    for (const length of lengths) {
      const row = Float64Array.from(logits.at(longest - length));
      const top = Math.max(...row);
      const total = Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - top), 0)) + top;
      answers.set(
        length,
        row.map((logit) => logit - total),
      );
    }
    state.release();
  }
  await session.release();
}, 600_000);

/** What no order of sums and no rounding of activations to 16 bits may exceed, in the logarithm of a probability. */
const tolerance = 2e-2;

function check(length: number, place: number, likeliest: readonly Likely[], what: string): void {
  const all = wanted[place % 2].get(length)!;
  const best = all.indexOf(Math.max(...all));
  // The first is the reference implementation's first, or as likely.
  expect(all[best] - all[likeliest[0].token], `${what}, ${length} tokens: the likeliest`).toBeLessThan(tie);
  for (const { token, logprob } of likeliest)
    expect(Math.abs(all[token] - logprob), `${what}, ${length} tokens: token ${token}`).toBeLessThan(tolerance);
}

function shuffled(by: number): number[] {
  const random = seededRandom(by);
  return lengths
    .map((length) => ({ length, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ length }) => length);
}

const orders: readonly (readonly [name: string, order: readonly number[]])[] = [
  ["the shortest first", lengths],
  ["the longest first", lengths.toReversed()],
  [`in any order, by seed ${seed}`, shuffled(seed)],
  [`in any order, by seed ${seed + 1}`, shuffled(seed + 1)],
  ["8 apart", lengths.filter((length) => length % 8 === 1)],
];

/** Prompts in a process of their own. */
async function inProcess(threads: number, order: readonly number[]): Promise<Likely[][]> {
  const script = fileURLToPath(new URL("prompt-process.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, String(threads)]);
  let [output, errors] = ["", ""];
  child.stdout.on("data", (data: Buffer) => (output += data.toString()));
  child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
  child.stdin.end(JSON.stringify(order.map(promptOf)));
  const code = await new Promise((resolve) => child.on("close", resolve));
  expect(code, errors).toBe(0);
  return JSON.parse(output) as Likely[][];
}

const processes = [1, 2, 3].flatMap((threads) => orders.map((order) => [threads, ...order] as const));
// In the tests two of them.
const chosen = soak ? processes : [processes[4], processes[12]];

test.each(chosen)("%i threads, %s", async (threads, name, order) => {
  const all = await inProcess(threads, order);
  expect(all).toHaveLength(order.length);
  order.forEach((length, at) => check(length, at, all[at], `${threads} threads, ${name}`));
});

const end = new MemoryEnd();
afterAll(() => end.restore());

test.each(soak ? [1, 2, 3] : [2])("%i threads, with the arena at the memory's end", async (threads) => {
  const lm = await CausalLM.load(undefined, { ...atTheEnd, threads, inPlace: "require" });
  end.place(({ isArena }) => isArena);
  const order = soak ? lengths : lengths.filter((length) => length % 3 === 1);
  for (const [place, length] of order.entries()) {
    const prompt = promptOf(length, place);
    const [{ top }] = await tokensOf(lm.generate(prompt, { maxTokens: 1, temperature: 0, logprobs: 8 }));
    check(length, place, top!, `${threads} threads at the end`);
  }
  expect(end.placed).toBeGreaterThan(soak ? 40 : 2); // a longer prompt has a larger arena
  await lm.release();
});
