// Beam search against every text there is: a decoder with a vocabulary of 256, texts of two tokens, all 65,536 of them.
import { afterAll, beforeAll, expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { hubFolder, tokensOf } from "./support.js";

const folder = hubFolder("llama_op24", { "tokenizer_config.json": {} });
const prompt = [...Buffer.from("ab")];
let lm: CausalLM;
/** Log-probabilities of the first token, and of the second by the first. */
let first: number[];
let second: number[][];

beforeAll(async () => {
  lm = await CausalLM.load(folder.path);
  const after = async (tokens: readonly number[]): Promise<number[]> => {
    const [{ top }] = await tokensOf(lm.generate(tokens, { temperature: 0, maxTokens: 1, logprobs: 256 }));
    return top!.toSorted((a, b) => a.token - b.token).map(({ logprob }) => logprob);
  };
  first = await after(prompt);
  second = [];
  for (let token = 0; token < 256; token++) second.push(await after([...prompt, token]));
});
afterAll(async () => {
  await lm.release();
  folder.remove();
});

interface Text {
  readonly tokens: readonly number[];
  readonly score: number;
}

/** Every text: of two tokens, or of none or one where it ends with `end`; best first. */
function allTexts(lengthPenalty: number, end?: number): Text[] {
  const texts: Text[] = [];
  first.forEach((sum, a) => {
    if (a === end) texts.push({ tokens: [], score: sum });
    else
      second[a].forEach((more, b) =>
        texts.push({ tokens: b === end ? [a] : [a, b], score: (sum + more) / 2 ** lengthPenalty }),
      );
  });
  return texts.sort((x, y) => y.score - x.score);
}

test.each([0, 1, 2])(
  "beams as wide as the vocabulary find the best texts there are (length penalty %i)",
  async (penalty) => {
    const found = await lm.beamSearch(prompt, { beams: 256, maxTokens: 2, lengthPenalty: penalty });
    const wanted = allTexts(penalty).slice(0, 256);
    expect(found).toHaveLength(256);
    found.slice(0, 100).forEach(({ tokens, score, ended }, rank) => {
      expect(score, `rank ${rank}`).toBeCloseTo(wanted[rank].score, 3);
      expect(first[tokens[0]] + second[tokens[0]][tokens[1]], `rank ${rank}`).toBeCloseTo(score * 2 ** penalty, 3);
      expect(ended).toBe(false);
    });
    expect(found[0].tokens).toEqual(wanted[0].tokens);
  },
);

test("texts that end by themselves compete with those that go on", async () => {
  // The likeliest first token as the end: the empty text wins or loses by its score alone.
  const end = first.indexOf(Math.max(...first));
  const found = await lm.beamSearch(prompt, { beams: 256, maxTokens: 2, stopTokens: [end] });
  const wanted = allTexts(1, end);
  found.slice(0, 50).forEach(({ tokens, score, ended }, rank) => {
    expect(score, `rank ${rank}`).toBeCloseTo(wanted[rank].score, 3);
    expect(ended, `rank ${rank}`).toBe(tokens.length < 2);
  });
});

test("narrow beams are what the definition says, step by step", async () => {
  const beams = 3;
  const best = (texts: Text[]): Text[] => texts.sort((x, y) => y.score - x.score).slice(0, beams);
  const afterOne = best(first.map((score, token) => ({ tokens: [token], score })));
  const afterTwo = best(
    afterOne.flatMap(({ tokens, score }) =>
      second[tokens[0]].map((more, token) => ({ tokens: [...tokens, token], score: score + more })),
    ),
  );
  const found = await lm.beamSearch(prompt, { beams, maxTokens: 2, lengthPenalty: 0 });
  expect(found.map(({ tokens }) => tokens)).toEqual(afterTwo.map(({ tokens }) => tokens));
});
