/**
 * Mutated files, in a process of their own: whatever the bytes, they load, plan, explain and run, or are refused, soon and in little
 * memory. A sample in the tests, 100,000 in the soak; INSITU_SEED begins with one seed, INSITU_COUNT takes so many.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { soak } from "../support/soak.js";

interface Outcome {
  /** What was thrown that is no InsituError, or insitu's own mistake. */
  readonly wrong: readonly string[];
  readonly counts: { readonly refused: number; readonly loaded: number; readonly run: number };
  readonly longest: { readonly milliseconds: number; readonly seed: number; readonly bytes: number };
  readonly megabytes: number;
}

const count = Number(process.env["INSITU_COUNT"] ?? (soak ? 100_000 : 150));
/** Milliseconds of the processor that one file may take; in the tests only what hangs takes longer. */
const longestTime = soak ? 2_000 : 60_000;
const seed = Number(process.env["INSITU_SEED"] ?? 1);

test(`${count} mutations of real files from seed ${seed}`, async () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), "insitu-mutations-"));
  try {
    const outfile = join(folder, "mutations.mjs");
    await build({
      entryPoints: [join(root, "test/hostile/mutations.ts")],
      bundle: true,
      platform: "node",
      format: "esm",
      outfile,
      logLevel: "error",
    });
    const { stdout } = await promisify(execFile)(process.execPath, [outfile, String(count), String(seed), root], {
      maxBuffer: 2 ** 26,
    }).catch((error: unknown) => {
      throw new Error(String((error as { readonly stdout?: string }).stdout ?? error), { cause: error });
    });
    const { counts, wrong, longest, megabytes } = JSON.parse(stdout) as Outcome;
    console.log(`${JSON.stringify(counts)}, longest ${JSON.stringify(longest)}, the process grew by ${megabytes} MB`);
    expect(wrong).toEqual([]);
    expect(longest.milliseconds, `seed ${longest.seed}`).toBeLessThan(longestTime);
    expect(megabytes).toBeLessThan(512);
    // Mutations that nothing survives, or that break nothing, would test nothing.
    for (const part of [counts.refused, counts.loaded + counts.run]) expect(part).toBeGreaterThan(count / 20);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
