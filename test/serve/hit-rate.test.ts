// scripts/simulate-hit-rate.mjs: caches that hold everything reuse the same whoever is asked, larger ones reuse more, and a seed repeats it.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

interface Simulated {
  readonly distinct: number;
  readonly sizes: readonly number[];
  readonly rows: readonly { readonly name: string; readonly shares: readonly number[] }[];
}

test("what caches of growing sizes reuse", () => {
  const script = fileURLToPath(new URL("../../scripts/simulate-hit-rate.mjs", import.meta.url));
  const simulate = (): string =>
    execFileSync(process.execPath, [script, "--minutes", "4", "--seed", "7", "--json"], { encoding: "utf8" });
  const { distinct, sizes, rows } = JSON.parse(simulate()) as Simulated;
  expect(distinct).toBeLessThan(sizes.at(-1)!);
  const [one, inTurns, hashed, inTurnsStored, hashedStored] = rows.map(({ shares }) => shares);
  for (const shares of [one, inTurns, hashed]) expect(shares).toEqual(shares.toSorted((a, b) => a - b));
  for (const [at, share] of hashed.entries()) expect(share).toBeGreaterThanOrEqual(inTurns[at]);
  for (const stored of [inTurnsStored, hashedStored]) expect(stored.at(-1)).toBeCloseTo(one.at(-1)!, 10);
  expect(one.at(-1)).toBeGreaterThan(hashed.at(-1)!);
});
