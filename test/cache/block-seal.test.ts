// Values of a store: what differs in any bit from what was sealed, or was sealed for another block, another model, another tenant or with
// another secret, is refused.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type NamedBlock, nameBlocks } from "../../packages/serve/running/block-names.js";
import { BlockSeal } from "../../packages/serve/running/block-seal.js";
import { soak } from "../support/soak.js";

const count = soak ? 10_000 : 400;
const given = process.env["INSITU_SEED"] === undefined ? {} : { seed: Number(process.env["INSITU_SEED"]) };
const byteLength = 1500;
const tokens = Array.from({ length: 64 }, (_, at) => at * 7);
const bytes = Uint8Array.from({ length: byteLength }, (_, at) => at * 31);
const secret = new TextEncoder().encode("a secret of enough bytes");
const blocksOf = (model: string, salt: string): NamedBlock[] => nameBlocks(model, salt, tokens, 16);

test("what was sealed is opened, by whoever has the secret", async () => {
  const [block] = blocksOf("model", "salt");
  for (const shared of [undefined, secret]) {
    const value = await new BlockSeal(shared).seal(block, bytes);
    expect(await new BlockSeal(shared).open(block, value, byteLength)).toEqual(bytes);
  }
  expect(() => new BlockSeal(new Uint8Array(8))).toThrow("16 bytes or more, got 8");
});

/** What is done to a value: bits turned, an end cut off, bytes put behind. */
const damage = fc.oneof(
  fc.record({ at: fc.nat(), turned: fc.uint8Array({ minLength: 1, maxLength: 6 }) }),
  fc.record({ keeps: fc.nat() }),
  fc.record({ more: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
);

function damaged(value: Uint8Array, how: typeof damage extends fc.Arbitrary<infer T> ? T : never): Uint8Array {
  if ("keeps" in how) return value.slice(0, how.keeps % value.length);
  if ("more" in how) return Uint8Array.from([...value, ...how.more]);
  const changed = value.slice();
  // One bit at least.
  how.turned.forEach((bits, index) => (changed[(how.at + index) % value.length] ^= bits || 1));
  return changed;
}

test(`${count} damaged values are refused`, async () => {
  const blocks = blocksOf("model", "salt");
  for (const seal of [new BlockSeal(), new BlockSeal(secret)]) {
    const value = await seal.seal(blocks[1], bytes);
    const isRefused = fc.asyncProperty(
      damage,
      async (how) => (await seal.open(blocks[1], damaged(value, how), byteLength)) === undefined,
    );
    await fc.assert(isRefused, { numRuns: count / 2, ...given });
  }
});

test("a value of another block, model, tenant, size or secret is refused, however whole", async () => {
  const blocks = blocksOf("model", "salt");
  const seal = new BlockSeal(secret);
  const value = await seal.seal(blocks[0], bytes);
  expect(await seal.open(blocks[0], value, byteLength)).toEqual(bytes);
  for (const [other] of [blocksOf("another", "salt"), blocksOf("model", "another"), blocks.slice(1)])
    expect(await seal.open(other, value, byteLength)).toBe(undefined);
  expect(await seal.open(blocks[0], value, byteLength - 4)).toBe(undefined);
  expect(await new BlockSeal().open(blocks[0], value, byteLength)).toBe(undefined);
  expect(await new BlockSeal(secret.map((byte) => byte ^ 1)).open(blocks[0], value, byteLength)).toBe(undefined);
  const unsigned = await new BlockSeal().seal(blocks[0], bytes);
  expect(await seal.open(blocks[0], unsigned, byteLength)).toBe(undefined);
});
