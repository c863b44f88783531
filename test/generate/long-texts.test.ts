// Texts that are long, or are one long word, become tokens in steps: the tokens are those of the library, whose own merging and splitting take the
// text as a whole, and the cuts between the steps change no match of any pattern.
import { Tokenizer } from "@huggingface/tokenizers";
import { describe, expect, test } from "vitest";
import { BoundedPattern } from "../../packages/text/patterns/bounded-pattern.js";
import { type EncodeBounds, TextTokenizer } from "../../src/generate/tokenizer.js";
import { seededRandom } from "../../src/graph/call.js";
import { nativeOf, patternStyles } from "./pattern-styles.js";
import { tokenizerStyles } from "./tokenizer-styles.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 7_310_245);

const pieces = [
  " ",
  "  ",
  "\n",
  "\r\n\r\n",
  "\t",
  " a",
  "the",
  " King",
  "'s",
  "12345",
  "!?",
  " …",
  "ß",
  "漢字",
  "😀",
  "\u0301",
  "_",
  " .",
];

/** Some text of about so many characters, among it words and runs that are long. */
function randomText(random: () => number, length: number): string {
  const below = (count: number): number => Math.floor(random() * count);
  let text = "";
  while (text.length < length) {
    const kind = below(200);
    if (kind === 0) text += Array.from({ length: below(6000) }, () => "etaoinshrdlu"[below(12)]).join("");
    else if (kind === 1) text += pieces[below(pieces.length)].repeat(below(3000));
    else text += pieces[below(pieces.length)];
  }
  return text;
}

/** The library's own, with the tokens around a text that it puts there. */
const libraryTokens = (style: object, text: string): number[] => new Tokenizer(style, {}).encode(text).ids;

describe.each(Object.entries(tokenizerStyles))("%s", (_, style) => {
  test("long texts have the library's tokens", async () => {
    const tokenizer = await TextTokenizer.load({ tokenizer: style });
    for (let count = 0; count < (soak ? 40 : 1); count++) {
      const text = randomText(seededRandom(seed + count), 24_000 + 10_000 * count);
      expect(tokenizer.encode(text), `seed ${seed + count}`).toEqual(libraryTokens(style, text));
    }
  });
});

test("words have the library's pieces, whatever is merged", async () => {
  const below = (random: () => number, count: number): number => Math.floor(random() * count);
  for (let count = 0; count < (soak ? 2000 : 60); count++) {
    const random = seededRandom(seed + count);
    const texts = ["a", "b", "c", "d"];
    const merges: [string, string][] = [];
    for (let at = below(random, 40); at > 0; at--) {
      const merge: [string, string] = [texts[below(random, texts.length)], texts[below(random, texts.length)]];
      // Some stand there twice, and some make what is in no vocabulary.
      merges.push(merge);
      if (!texts.includes(merge.join(""))) texts.push(merge.join(""));
    }
    const vocab = Object.fromEntries(["<unk>", ...texts].map((text, at) => [text, at]));
    const suffix = count % 5 === 0 ? { continuing_subword_suffix: "d" } : {};
    const model = { type: "BPE", unk_token: "<unk>", vocab, merges, ...suffix };
    const style = {
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      decoder: null,
      added_tokens: [],
      model,
    };
    const tokenizer = await TextTokenizer.load({ tokenizer: style });
    const word = Array.from({ length: 1 + below(random, 80) }, () => "abcdx"[below(random, 5)]).join("");
    expect(tokenizer.encode(word), `seed ${seed + count}: ${word}`).toEqual(libraryTokens(style, word));
  }
});

describe("cuts", () => {
  const own = [
    "\\s+",
    "\\s",
    "a*",
    "^a|b ",
    "(?<=a) b",
    "a(?= b)",
    "a$|.",
    "\\w+ ?|[\\s\\S]",
    "[^ ]+ [^ ]+",
    "(?:ab )+|[\\s\\S]",
    "\\n|[^\\n]+",
  ];
  const all = [...Object.values(patternStyles).flat(), ...own];
  let cut = 0;

  test.each(all)("%s: the matches of the parts are RegExp's of the whole", (source) => {
    const pattern = nativeOf(source);
    const bounded = new BoundedPattern(pattern);
    const random = seededRandom(seed);
    for (let count = 0; count < (soak ? 200 : 6); count++) {
      const text = randomText(random, 60).slice(0, 400);
      const whole = Array.from(text.matchAll(pattern), (match) => [match.index, match[0]]);
      for (let at = 1; at < text.length; at++) {
        const [before, after] = [text.charCodeAt(at - 1), text.codePointAt(at)!];
        if ((before >= 0xd800 && before <= 0xdfff) || !bounded.cutsBetween(before, after)) continue;
        cut++;
        const parts = [0, at].flatMap((from) =>
          Array.from(text.slice(from, from === 0 ? at : undefined).matchAll(pattern), (match) => [
            match.index + from,
            match[0],
          ]),
        );
        expect(parts, `${JSON.stringify(text)} at ${at}`).toEqual(whole);
        // What stands between matches is a piece too: it may not be cut.
        expect(whole.some(([index]) => index === at)).toBe(true);
      }
    }
  });

  test("there are some", () => expect(cut).toBeGreaterThan(1000));
});

describe("steps", () => {
  const bounds: EncodeBounds = { mostCharacters: 1_000_000, mostTokens: 1_000_000 };
  const steps = (work: Iterator<void, unknown>): number => {
    let count = 0;
    while (work.next().done !== true) count++;
    return count;
  };

  test.each([
    ["prose", "There was once a wolf who lived in a wood. "],
    ["one word", "etaoinshrdluetoishaetoain"],
  ])("%s: twice the text takes twice the steps", async (_, piece) => {
    const tokenizer = await TextTokenizer.load({ tokenizer: tokenizerStyles["GPT-2"] });
    const [one, two] = [100_000, 200_000].map((length) =>
      steps(tokenizer.encodeSteps(piece.repeat(length / piece.length), undefined, bounds)),
    );
    expect(one).toBeGreaterThan(8);
    expect(two / one).toBeGreaterThan(1.8);
    expect(two / one).toBeLessThan(2.3);
  });

  test("what has too many tokens is read no further; what has too many characters, not at all", async () => {
    const tokenizer = await TextTokenizer.load({ tokenizer: tokenizerStyles["Llama 3"] ?? tokenizerStyles["GPT-2"] });
    const text = "There was once a wolf. ".repeat(20_000);
    let count = 0;
    const work = tokenizer.encodeSteps(text, undefined, { ...bounds, mostTokens: 100 });
    expect(() => {
      while (work.next().done !== true) count++;
    }).toThrow(/the text has more than 100 tokens/);
    expect(count).toBeLessThan(3);
    const overlong = (): unknown => tokenizer.encodeSteps(text, undefined, { ...bounds, mostCharacters: 1000 });
    expect(overlong).toThrow(/the text has 460000 characters, at most 1000 are read/);
  });

  test("two texts in turns have the tokens that they have alone", async () => {
    const tokenizer = await TextTokenizer.load({ tokenizer: tokenizerStyles["GPT-2"] });
    const texts = [0, 1, 2].map((at) => randomText(seededRandom(seed + at), 60_000));
    const works = texts.map((text) => tokenizer.encodeSteps(text, undefined, bounds));
    const made: unknown[] = [];
    while (made.filter((each) => each !== undefined).length < works.length)
      for (const [at, work] of works.entries()) {
        const { done, value } = work.next();
        if (done === true && made[at] === undefined) made[at] = value;
      }
    expect(made).toEqual(texts.map((text) => tokenizer.encode(text)));
  });
});
