// Where a text ends that is to end at a sentence: however it is cut into pieces, as a reader would say; and what a model's sampling
// means to a caller who does not sample.
import fc from "fast-check";
import { expect, test } from "vitest";
import { CausalLM } from "../../src/entry/node.js";
import { readSampling } from "../../packages/choice/sampling.js";
import { SentenceEnd } from "../../src/engine/sentence-end.js";

/** The text up to the first end of a sentence that shows itself, fed in pieces of these lengths in turn. */
function firstSentence(text: string, lengths: readonly number[]): string | undefined {
  const sentence = new SentenceEnd();
  let told = "";
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const piece = text.slice(at, at + lengths[turn % lengths.length]);
    const ended = sentence.push(piece);
    if (ended !== undefined) return told + ended;
    told += piece;
    at += piece.length;
  }
  return undefined;
}

const texts: readonly (readonly [text: string, first: string | undefined])[] = [
  ["The king was old. He had three sons.", "The king was old."],
  ["'Who is there?' asked the witch. Nobody answered.", "'Who is there?' asked the witch."],
  ['"Come in!" She came.', '"Come in!"'],
  ["So Mr. Fox went home.\nThen it rained.", "So Mr. Fox went home."],
  ["It was J. R. who came (he said.) And so on.", "It was J. R. who came (he said.)"],
  ["It cost 3.50 and no more", undefined],
  ["The end.", undefined],
  ["王さまがいました。三人の", "王さまがいました。"],
];

test.each(texts)("%j", (text, first) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 }), (lengths) => {
      expect(firstSentence(text, lengths)?.trimEnd()).toBe(first);
    }),
  );
});

test("a text ends at a sentence in its last quarter, and is otherwise the text it would be", async () => {
  const lm = await CausalLM.load();
  try {
    let shorter = 0;
    for (const seed of [1, 2, 3, 4]) {
      const options = { maxTokens: 96, seed } as const;
      const whole = lm.generate("Once upon a time", options);
      const ended = lm.generate("Once upon a time", { ...options, endAtSentence: true });
      const [all, some] = [await whole.text(), await ended.text()];
      expect(all.startsWith(some)).toBe(true);
      expect(ended.summary.newTokens).toBeGreaterThanOrEqual(72);
      if (some !== all) {
        shorter++;
        expect(some).toMatch(/[.!?]['"]*$/);
        expect(ended.summary.finishReason).toBe("length");
      }
    }
    expect(shorter).toBeGreaterThan(0);
  } finally {
    await lm.release();
  }
});

test("a model's repetition penalty is for those who sample", () => {
  const model = { temperature: 0.8, repetitionPenalty: 1.1, topK: 40 };
  expect(readSampling({}, model)).toMatchObject({ temperature: 0.8, repetitionPenalty: 1.1, topK: 40 });
  expect(readSampling({ temperature: 0 }, model)).toMatchObject({ temperature: 0, repetitionPenalty: 1 });
  expect(readSampling({ temperature: 0, repetitionPenalty: 1.2 }, model).repetitionPenalty).toBe(1.2);
  // A model that is greedy by itself means its penalty for greedy texts.
  expect(readSampling({ temperature: 0 }, { temperature: 0, repetitionPenalty: 1.3 }).repetitionPenalty).toBe(1.3);
});
