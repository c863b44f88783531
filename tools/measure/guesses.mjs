// Tokens a second with guesses against those without, of tales by the embedded model, each text in turns; and how often guesses are right. "known": guesses
// that cost nothing and are all right, which bounds what any draft can gain. `node tools/measure/guesses.mjs [draft folder] [texts] [tokens] [threads] [ways]` after a
// build; a draft is made by training/draft.py.
import { CausalLM } from "../../dist/index.node.js";

const [folder = "", texts = 56, tokens = 128, threads = 2, only = ""] = process.argv.slice(2);
const lm = await CausalLM.load(undefined, { threads: Number(threads) });
const draft = folder === "" ? undefined : await CausalLM.load(folder, { threads: Number(threads) });
const subjects = ["king", "old woman", "wolf", "poor miller", "youngest son", "princess", "fox", "fisherman"];
const deeds = [
  "who went into the forest",
  "who had three",
  "that saw a bird",
  "who said to the",
  "of the castle",
  "who was so",
  "and a well",
];
const prompts = deeds.flatMap((deed) => subjects.map((subject) => `Once upon a time there was a ${subject} ${deed}`));

/** Guesses what a text is known to say. */
function known(all) {
  let [made, wanted, guesses] = [undefined, 0, []];
  const follower = {
    unread: 0,
    isOver: false,
    get guesses() {
      return guesses;
    },
    get isDone() {
      return guesses.length >= wanted;
    },
    ask(count) {
      [wanted, guesses] = [count, all.slice(made.made, made.made + count)];
      wanted = guesses.length;
      return true;
    },
  };
  const source = { follow: (text) => ((made = text), follower), advance: async () => true, leave: async () => {} };
  return { vocabulary: lm.vocabulary, forServers: { draft: source } };
}

const options = { maxTokens: Number(tokens), ignoreEnd: true };
const ways = {
  known1: (all) => ({ draft: known(all), tokens: 1, adaptive: false }),
  known3: (all) => ({ draft: known(all), tokens: 3, adaptive: false }),
  known7: (all) => ({ draft: known(all), tokens: 7, adaptive: false }),
  lookup: () => true,
  ...(draft === undefined
    ? {}
    : {
        draft: () => ({ draft }),
        draft1: () => ({ draft, tokens: 1, adaptive: false }),
        draft3: () => ({ draft, tokens: 3, adaptive: false }),
      }),
};
const asked = Object.entries(ways).filter(([way]) => only === "" || only.split(",").includes(way));
const take = async (prompt, more) => {
  const made = [];
  const generation = lm.generate(prompt, { ...options, ...more });
  let first;
  for await (const { token } of generation) {
    first ??= performance.now();
    made.push(token);
  }
  return { made, time: performance.now() - first, ...generation.summary };
};
for (const [name, sampling] of Object.entries({
  greedy: { temperature: 0 },
  0.8: { temperature: 0.8, topK: 40, topP: 0.95, repetitionPenalty: 1.1 },
})) {
  const sums = new Map([["plain", { time: 0, guessed: 0, right: 0, ratios: [] }]]);
  for (const [at, prompt] of prompts.slice(0, Number(texts)).entries()) {
    const seed = { ...sampling, seed: at };
    if (at === 0) for (let warm = 0; warm < 5; warm++) await take(prompt, seed);
    const plain = await take(prompt, seed);
    sums.get("plain").time += plain.time;
    for (const [way, speculate] of asked) {
      const told = await take(prompt, { ...seed, speculate: speculate(plain.made) });
      const sum = sums.get(way) ?? { time: 0, guessed: 0, right: 0, ratios: [] };
      sum.time += told.time;
      sum.ratios.push(plain.time / told.time);
      sum.guessed += told.guessedTokens;
      sum.right += told.rightGuesses;
      sums.set(way, sum);
    }
  }
  for (const [way, { time, guessed, right, ratios }] of sums) {
    const sorted = ratios.toSorted((a, b) => a - b);
    const share = guessed === 0 ? "" : `, ${right} of ${guessed} guesses right (${(right / guessed).toFixed(2)})`;
    const ratio =
      way === "plain"
        ? ""
        : `, ${(sums.get("plain").time / time).toFixed(2)} × plain (texts ${sorted[0].toFixed(2)} to ${sorted.at(-1).toFixed(2)}, median ${sorted[sorted.length >> 1].toFixed(2)})`;
    console.log(
      `${name} ${way}: ${((Number(texts) * (Number(tokens) - 1) * 1000) / time).toFixed(0)} tokens/s${ratio}${share}`,
    );
  }
}
await draft?.release();
await lm.release();
