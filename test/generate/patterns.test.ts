// A tokenizer's regular expressions within bounds: the matches are RegExp's own, for the patterns of the field and for random ones, and
// the work grows with the text whatever the pattern is. What is counted are steps, not time.
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { BoundedPattern } from "../../packages/text/patterns/bounded-pattern.js";
import { mostStepsPerCharacter, PatternWork } from "../../packages/text/patterns/limits.js";
import { seededRandom } from "../../src/graph/call.js";
import { nativeOf, patternStyles } from "./pattern-styles.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 5_150_721);

const texts = [
  "Once upon a time, there WAS a king; he'd three daughters & 1234567 sheep!!\n\n\tThey're ALL'S well.  ",
  "    indented\r\n\r\n  code(x, y) { return `a${b}`; }   // 3.14e-10\n\n\n",
  "Schneewittchen aß den Apfel, naïve café ÀÉÎ żółć ǅ ʰ",
  "昔々、ある所に王様がいました。ひらがなカタカナ漢字123 한국어 문장입니다.",
  "😀😀 a family 👨‍👩‍👧 and a flag 🇩🇪! ａｂｃ ﬁ ½ Ⅷ \u200b\ufeff\u00a0\u3000",
  "مرحبا بالعالم हिन्दी में नमस्ते… ۔ । 12,345.67",
  " ".repeat(300),
  `${" ".repeat(300)}x`,
  "\n".repeat(200),
  "a".repeat(400),
  "A".repeat(400),
  `${"Ab1 '".repeat(100)}`,
];

/** All that strings ask of a pattern. */
const matchesOf = (text: string, pattern: RegExp): unknown => [
  Array.from(text.matchAll(pattern), (match) => [match.index, ...match]),
  text.match(pattern),
  text.split(pattern),
  text.replaceAll(pattern, "<>"),
];

describe.each(Object.entries(patternStyles))("%s", (_, patterns) => {
  test.each(patterns)("/%s/", (regex) => {
    const native = nativeOf(regex);
    const work = new PatternWork();
    const bounded = new BoundedPattern(native, work);
    for (const text of texts) {
      work.begin(text.length);
      expect(matchesOf(text, bounded), text).toEqual(matchesOf(text, native));
      // Far from the bound: a tenth of it for the worst of these texts.
      work.begin(text.length);
      const before = work.left;
      text.match(bounded);
      expect((before - work.left) / text.length, text).toBeLessThan(mostStepsPerCharacter / 10);
    }
  });
});

test("random patterns match what RegExp matches", () => {
  const random = seededRandom(seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)];
  const quantifiers = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}", "{0,2}?", "{1,}", "{2,3}?"];
  const make = (depth: number): string => {
    const kind = random();
    if (depth === 0 || kind < 0.3) return pick(["a", "b", "c", ".", "[ab]", "[^a]", "\\s", "\\p{L}", "(?:)"]);
    const inner = (): string => make(depth - 1);
    if (kind < 0.5) return inner() + inner();
    if (kind < 0.62) return `(?:${inner()}|${inner()})`;
    if (kind < 0.85) return `(${pick(["?:", "?:", ""])}${inner()})${pick(quantifiers)}`;
    if (kind < 0.95) return `(${pick(["?=", "?!", "?<=", "?<!"])}${inner()})`;
    return pick(["^", "$"]);
  };
  const count = soak ? 200_000 : 3_000;
  let compared = 0;
  for (let at = 0; at < count; at++) {
    const source = make(5);
    // What a look around captures is not remembered; characters of two units are left to the patterns of the field.
    if (/\(\?<?[=!]/.test(source) && /\((?!\?)/.test(source)) continue;
    const text = Array.from({ length: Math.floor(random() * 8) }, () => pick(["a", "b", "c", " "])).join("");
    const native = new RegExp(source, "gu");
    const found = matchesOf(text, new BoundedPattern(native));
    expect(found, `/${source}/ on "${text}", seed ${seed}`).toEqual(matchesOf(text, native));
    compared++;
  }
  expect(compared).toBeGreaterThan(count / 2);
});

/** Patterns that take a backtracking matcher forever, and texts that make them do it. */
const evil: readonly (readonly [regex: string, text: (length: number) => string])[] = [
  ["(a+)+$", (n) => `${"a".repeat(n)}!`],
  ["(a|a)*b", (n) => "a".repeat(n)],
  ["(a|aa)+$", (n) => `${"a".repeat(n)}!`],
  ["(.*)*x", (n) => "a".repeat(n)],
  ["(\\w+\\s?)+$", (n) => `${"aaaa ".repeat(n / 5)}!`],
  ["([a-z]+)*1", (n) => "a".repeat(n)],
  ["a*a*a*a*a*b", (n) => "a".repeat(n)],
  ["(x+x+)+y", (n) => "x".repeat(n)],
  ["(?=(a+)+$)a", (n) => `${"a".repeat(n)}!`],
  ["(?!(a|a)*b)a", (n) => "a".repeat(n)],
  ["a(?=a*b)", (n) => `${"a".repeat(n)}b`],
  ["(?<=(a+)+b)c", (n) => `${"a".repeat(n)}c`],
  ["(?<!(a|aa)+b)c", (n) => "ac".repeat(n / 2)],
  ["((((a*)*)*)*)*b", (n) => "a".repeat(n)],
  ["(a?){30}a{30}b", (n) => "a".repeat(n)],
  ["(a*?)*?b", (n) => "a".repeat(n)],
  ["((a|b)*c|(a|b)*d)+e", (n) => "ab".repeat(n / 2)],
  ["(?i:(a|A)*)*b", (n) => "aA".repeat(n / 2)],
  ["([^\\s]+\\s*)*;", (n) => "word ".repeat(n / 5)],
  ["\\s+$|(\\s*\\n?)*z", (n) => " ".repeat(n)],
  ["(?>a+)+b", (n) => "a".repeat(n)],
];

describe("the work grows with the text", () => {
  test.each(evil)("/%s/", (regex, text) => {
    const native = nativeOf(regex);
    const stepsFor = (length: number): number => {
      const work = new PatternWork();
      const given = text(length);
      work.begin(given.length);
      const before = work.left;
      const bounded = new BoundedPattern(native, work);
      given.match(bounded);
      given.split(bounded);
      return before - work.left;
    };
    const [short, long] = [stepsFor(200), stepsFor(2_000)];
    // Ten times the text, ten times the work; a little more for what every text costs.
    expect(long).toBeLessThan(11 * short + 1_000);
    // Short texts are matched by RegExp, too.
    expect(matchesOf(text(5), new BoundedPattern(native))).toEqual(matchesOf(text(5), native));
  });
});

describe("what cannot be bound is refused by name", () => {
  const refusals: readonly (readonly [string, RegExp])[] = [
    ["(a+)\\1b", /refers back to a group/],
    ["(?<word>a+)\\k<word>", /refers back to a group/],
    ["((a{100}){100}){100}", /larger than 5000 steps/],
    ["(((((a?){9}){9}){9}){9}){9}", /larger than 5000 steps/],
    ["(?:".repeat(150) + "a" + ")*".repeat(150), /nests more than 100 groups/],
    [`(?:${"(?:".repeat(60)}${"(?:)(?:))*".repeat(60)})*`, /larger than 5000 steps|nests/],
    ["a".repeat(30_000), /has 30000 characters, more than 20000/],
  ];
  test.each(refusals)("/%.40s/", (source, message) => {
    const refused = (): BoundedPattern => new BoundedPattern(new RegExp(source, "gu"));
    expect(refused).toThrow(InsituError);
    expect(refused).toThrow(message);
  });

  test("a pattern that makes too much of a text", () => {
    const pattern = new BoundedPattern(/a/gu);
    expect("aaa".replaceAll(pattern, "$&$1")).toBe("$&$1".repeat(3));
    expect(() => "a".repeat(2_000).replaceAll(pattern, "b".repeat(10_000))).toThrow(/makes more than 1000 characters/);
  });
});
