// Text out of tokens: whole characters only, nothing lost, nothing of a stop string shown.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StopStrings, TextStream } from "../../src/engine/text-stream.js";
import { NgramLookup } from "../../packages/choice/lookup.js";

/** Tokens are bytes. */
const bytes = { decode: (tokens: readonly number[]): string => new TextDecoder().decode(Uint8Array.from(tokens)) };
/** Tokens are words; a space goes before each but the first, as SentencePiece has it. */
const words = { decode: (tokens: readonly number[]): string => tokens.map((token) => `w${token}`).join(" ") };
/** Each byte that is no character by itself becomes a character of its own, as byte fallback has it. */
const fallback = {
  decode: (tokens: readonly number[]): string => {
    const text = bytes.decode(tokens);
    const partial = text.endsWith("\uFFFD") ? tokens.length - new TextEncoder().encode(text.slice(0, -1)).length : 0;
    return partial > 1 ? text + "\uFFFD".repeat(partial - 1) : text;
  },
};

const pieces = (stream: TextStream, tokens: Iterable<number>): string[] => [
  ...Array.from(tokens, (token) => stream.push(token)),
  stream.end(),
];

describe.each([
  ["bytes", bytes],
  ["byte fallback", fallback],
])("%s", (_, decoder) => {
  test("no piece holds half a character, and together they are the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme", maxLength: 5 }), (text, before) => {
        fc.pre(!text.includes("\uFFFD"));
        const prompt = [...new TextEncoder().encode(before)];
        const made = pieces(new TextStream(decoder, prompt), new TextEncoder().encode(text));
        expect(made.join("")).toBe(text);
        for (const piece of made) expect(piece).not.toContain("\uFFFD");
        for (const piece of made) expect(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/.test(piece)).toBe(false);
      }),
    );
  });
});

test("bytes that never become a character come out in the end, and soon", () => {
  const stream = new TextStream(bytes);
  expect(pieces(stream, [0x61, 0xff, 0x62]).join("")).toBe("a\uFFFDb");
  const many = new TextStream(bytes);
  for (let i = 0; i < 10; i++) many.push(0xff);
  expect(many.push(0x61) + many.end()).toBe(`${"\uFFFD".repeat(3)}a`); // seven were shown before
});

describe("the work grows with the tokens, whatever they are", () => {
  /** Bytes that are no characters, of every kind of wrong: alone, cut off, too many, too large. */
  const invalid: readonly (readonly [string, readonly number[]])[] = [
    ["never a beginning", [0xff]],
    ["only continuations", [0x80, 0xbf]],
    ["only beginnings", [0xe2]],
    ["cut off after 2 of 3", [0xe2, 0x82]],
    ["cut off after 3 of 4", [0xf0, 0x9f, 0x98]],
    ["overlong", [0xc0, 0x80]],
    ["a mixture", [0xf0, 0x9f, 0xe2, 0x82, 0xff, 0xc3, 0x80, 0xbf]],
  ];
  test.each(invalid)("%s", (_, cycle) => {
    const given = Array.from({ length: 20_000 }, (__, at) => cycle[at % cycle.length]);
    let decoded = 0;
    const counting = {
      decode: (tokens: readonly number[]): string => {
        decoded += tokens.length;
        return bytes.decode(tokens);
      },
    };
    const made = pieces(new TextStream(counting), given);
    expect(made.join("")).toBe(bytes.decode(given));
    // At most a few dozen tokens for each.
    expect(decoded).toBeLessThan(60 * given.length);
  });

  test("random bytes come out as they are decoded all at once", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat({ max: 20 }), (given, ascii) => {
        const tokens = [...given, ...Array.from({ length: ascii }, () => 0x61), ...given];
        expect(pieces(new TextStream(bytes), tokens).join("")).toBe(bytes.decode(tokens));
      }),
    );
  });
});

test("a space between prompt and text is kept", () => {
  expect(pieces(new TextStream(words, [1, 2]), [3, 4]).join("")).toBe(" w3 w4");
  expect(pieces(new TextStream(words), [3, 4]).join("")).toBe("w3 w4");
});

describe("stop strings", () => {
  const run = (stops: string[], parts: string[]): string => {
    const stop = new StopStrings(stops);
    let shown = "";
    for (const part of parts) {
      const { text, stopped } = stop.push(part);
      shown += text;
      if (stopped) return `${shown}|`;
    }
    return shown + stop.end();
  };
  test("what may become one is held back, and shown if it does not", () => {
    expect(run(["END"], ["a", "E", "N", "D", "b"])).toBe("a|");
    expect(run(["END"], ["a", "E", "N", "x"])).toBe("aENx");
    expect(run(["END"], ["aEN"])).toBe("aEN");
    expect(run(["aab"], ["aaab"])).toBe("a|");
    expect(run(["\n\n", "###"], ["x\n", "y\n", "\nz"])).toBe("x\ny|");
    expect(run([], ["x"])).toBe("x");
  });
  test("cut anywhere, the same is shown", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "b", "c") }),
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 3 }), { maxLength: 3 }),
        (text, stops) => {
          const ends = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
          const first = ends.length === 0 ? undefined : Math.min(...ends);
          const shown = run(stops, text.split(""));
          // Piece by piece the stop string that is complete first wins: it may begin later than one that is complete at once.
          if (first === undefined) expect(shown).toBe(text);
          else expect(shown.endsWith("|") && text.startsWith(shown.slice(0, -1))).toBe(true);
        },
      ),
    );
  });
});

test("guesses are what followed the text's end before", () => {
  const lookup = new NgramLookup({ ngram: 3, draft: 4 }, [1, 2, 3, 4, 5, 6, 9, 2, 3, 4]);
  expect(lookup.guess()).toEqual([5, 6, 9, 2]);
  lookup.push(7);
  expect(lookup.guess()).toEqual([]);
  const repeating = new NgramLookup({ ngram: 2, draft: 3 }, [1, 2, 1, 2]);
  expect(repeating.guess()).toEqual([1, 2]);
  expect(new NgramLookup({ ngram: 2, draft: 3 }, [1]).guess()).toEqual([]);
});
