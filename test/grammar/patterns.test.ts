// A pattern lets through the strings that RegExp with the flag u finds it in, and no others: random patterns, and random strings made of what is in
// them. The tests run a sample; INSITU_SOAK=1 runs all, INSITU_SEED repeats a seed.
import { expect, test } from "vitest";
import { makeGrammars } from "../../packages/grammar/grammars.js";
import { seededRandom } from "../../src/graph/call.js";
import { InsituError } from "../../src/base/error.js";
import { patterns } from "./corpus.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 1);
const count = soak ? 3000 : 250;

/** A token for each byte. */
const spellings = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).padStart(2, "0")}>`);
const grammars = makeGrammars({ kind: "byte_fallback", spellings: [...spellings, ""], endTokens: [256] });

/** True if a string may be the whole text. Each byte is looked up in the mask before it is taken. */
async function takes(pattern: string, text: string): Promise<boolean> {
  const held = await (await grammars).constrain({ kind: "schema", schema: { type: "string", pattern } });
  const mask = new Uint32Array(9);
  for (const byte of Buffer.from(JSON.stringify(text))) {
    held.fillMask(mask);
    const isAllowed = ((mask[byte >>> 5] >>> (byte & 31)) & 1) === 1;
    expect(held.accept(byte)).toBe(isAllowed);
    if (!isAllowed) return false;
  }
  return held.mayEnd === true;
}

const letters = Array.from('ab-.x"\\\n\té日😀0Z ');

function randomPattern(random: () => number, depth: number): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const literal = (): string =>
    pick(letters).replace(/["\n\t]|[-.\\]/g, (sign) =>
      (sign === "-" ? sign : `\\${{ "\n": "n", "\t": "t" }[sign] ?? sign}`).replace('\\"', '"'),
    );
  const atom = (): string => {
    const kind = random();
    if (kind < 0.4) return literal();
    if (kind < 0.55) return pick(["[a-z]", "[^ab]", "[é-日]", '["\\\\]', "[\\d\\s]", "[😀-😎x-]", "."]);
    if (kind < 0.65) return pick(["\\d", "\\w", "\\s", "\\S", "\\p{L}", "\\P{Lu}"]);
    if (kind < 0.75) return pick(["^", "$"]);
    if (depth === 0) return literal();
    if (kind < 0.95) return `(${random() < 0.5 ? "?:" : ""}${randomPattern(random, depth - 1)})`;
    return `(${pick(["?=", "?!"])}${randomPattern(random, depth - 1)})`;
  };
  const part = (): string => {
    const body = atom();
    if (/^[$^]$|^\(\?[=!]/.test(body)) return body;
    return body + pick(["", "", "", "?", "*", "+", "{2}", "{0,2}"]);
  };
  const sequence = (): string => Array.from({ length: 1 + Math.floor(random() * 3) }, part).join("");
  return random() < 0.3 ? `${sequence()}|${sequence()}` : sequence();
}

test(`random patterns, seed ${seed}`, async () => {
  const random = seededRandom(seed);
  let [found, compared] = [0, 0];
  for (let round = 0; round < count; round++) {
    const pattern = round < patterns.length ? patterns[round] : randomPattern(random, 2);
    const oracle = new RegExp(pattern, "u");
    for (let each = 0; each < 8; each++) {
      const text = Array.from(
        { length: Math.floor(random() * 6) },
        () => letters[Math.floor(random() * letters.length)],
      ).join("");
      try {
        const taken = await takes(pattern, text);
        expect({ pattern, text, taken }).toEqual({ pattern, text, taken: oracle.test(text) });
        compared++;
        if (taken) found++;
      } catch (error) {
        // What is refused is refused with its reason; a pattern that nothing obeys finds nothing here either.
        if (!(error instanceof InsituError)) throw error;
        expect(error.message).toMatch(/repeats an anchor|allows no value at all|takes more than/);
        if (error.message.includes("no value")) expect(oracle.test(text)).toBe(false);
        break;
      }
    }
  }
  expect(compared).toBeGreaterThan(count * 4);
  expect(found).toBeGreaterThan(compared / 10);
}, 600_000);

test("alternatives of which a token would take too many steps are refused, and few are not", async () => {
  const small = Array.from("abcdefghijklmnopqrst");
  const words = small.flatMap((a) => small.flatMap((b) => small.map((c) => a + b + c)));
  const wide = await makeGrammars({
    kind: "byte_fallback",
    spellings: [...spellings, ...words, ""],
    endTokens: [8256],
  });
  const begun = async (count: number): Promise<boolean> => {
    const patterns = words.slice(0, count * 20).filter((_, at) => at % 20 === 0);
    const anyOf = patterns.map((pattern) => ({ type: "string", pattern: `${pattern}.*${pattern}` }));
    const held = await wide.constrain({ kind: "schema", schema: { anyOf } });
    held.accept(0x22);
    return held.fillMask(new Uint32Array(Math.ceil(8257 / 32)));
  };
  expect(await begun(10)).toBe(true);
  await expect(begun(200)).rejects.toThrow("a token takes more than 250000 steps");
});

test("one rule that is asked for many times at once is made once, and others are made meanwhile", async () => {
  const rule = { kind: "schema", schema: { type: "string", pattern: "^[a-z]{300}[0-9]{300}$" } } as const;
  const made = await Promise.all([
    ...Array.from({ length: 8 }, async () => (await grammars).constrain(rule)),
    (await grammars).constrain({ kind: "schema", schema: { const: 1 } }),
  ]);
  for (const held of made.slice(0, 8))
    expect([held.accept(0x22), held.accept(0x61), held.accept(0x30)]).toEqual([true, true, false]);
  expect([made[8].accept(0x31), made[8].terminated]).toEqual([true, true]);
});
