/**
 * What small files may cost: each kind of bomb.ts is loaded, explained, drawn, compiled and rewritten in a process of its own, whose time
 * and memory must follow the file's size. The soak measures all of them against the clock, also at half the size; the tests measure a sample
 * (INSITU_SEED chooses it) and ask of what took long whether it grows faster than its file, since the machine may be slow.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type Bomb, bombs } from "./bombs.js";
import { soak } from "../support/soak.js";

interface Measured {
  readonly bytes: number;
  /** Milliseconds of the processor by stage. */
  readonly times: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, string>>;
  /** How much the process has grown, this file and all before it. */
  readonly megabytes: number;
}

/** Milliseconds that a stage takes on a machine that has other work too: a second, and some for each kilobyte. */
const mostTime = (bytes: number): number => 1_000 + (2 * bytes) / 1024;
/** Megabytes that the process may grow by: a constant, and some hundred bytes for each of the file's. */
const mostMemory = (bytes: number): number => 256 + (400 * bytes) / 2 ** 20;
/** A file that takes so long is given up. */
const patience = 240_000;

const seed = Number(process.env["INSITU_SEED"] ?? Date.now() % 1_000);

/** The ones that were found first always run; of the others a few. */
const always = new Set([
  "symbols: products",
  "symbols: maxima that double",
  "views: Reshape before a scatter",
  "updates: each read",
  "functions: constants",
  "functions: long names",
  "constants: Conv",
]);
const chosen = bombs.filter(({ name }, at) => soak || always.has(name) || at % 72 === seed % 72);
/** What counts nodes is made smaller in the tests; what counts doublings is not. */
const sizeOf = ({ size }: Bomb): number => (soak || size < 1_000 ? size : size / 8);

/** Measures files one after another, in one process. */
async function measure(paths: readonly string[]): Promise<Measured[]> {
  const script = fileURLToPath(new URL("measure.mjs", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, ["--expose-gc", script, ...paths], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const results: Measured[] = [];
  let timer: NodeJS.Timeout | undefined;
  let current = "";
  for await (const line of createInterface({ input: child.stdout! })) {
    clearTimeout(timer);
    const said = JSON.parse(line) as { readonly begins: string } | Measured;
    if ("begins" in said) {
      current = said.begins;
      timer = setTimeout(() => child.kill("SIGKILL"), patience);
    } else results.push(said);
  }
  clearTimeout(timer);
  if (results.length < paths.length)
    throw new Error(`${current} killed the process, or took longer than ${patience} ms`);
  return results;
}

/** Stages that took longer than such a file should. Following the elements of masks costs more for each node than anything else. */
const slowStages = ({ bytes, times }: Measured): string[] =>
  Object.keys(times).filter((stage) => times[stage] > mostTime(bytes) * (stage === "rewrite" ? 5 : 1));

/** What is refused is refused by an InsituError; `room` is what the process may have grown by, with this file and all before it. */
function check({ name }: Bomb, { bytes, errors, megabytes }: Measured, room: number): void {
  for (const [stage, error] of Object.entries(errors)) {
    expect(error, `${name}, ${stage}`).toMatch(/^InsituError: /);
    expect(error, `${name}, ${stage}`).not.toMatch(/^InsituError: internal/);
  }
  expect(megabytes, `megabytes of ${name}, ${bytes} bytes`).toBeLessThan(room);
}

test(`${chosen.length} of ${bombs.length} small files that ask for much, chosen by seed ${seed}`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bombs-"));
  try {
    const write = (bomb: Bomb, at: number, size: number): string => {
      const path = join(folder, `${at}-${size}.onnx`);
      writeFileSync(path, bomb.build(Math.max(1, Math.round(size))));
      return path;
    };
    const full = chosen.map((bomb, at) => write(bomb, at, sizeOf(bomb)));
    const results = await measure(full);
    const worst = (of: (result: Measured) => number): string => {
      const at = results.reduce((best, result, index) => (of(result) > of(results[best]) ? index : best), 0);
      return `${of(results[at])} (${chosen[at].name}, ${results[at].bytes} bytes)`;
    };
    for (const stage of ["load", "explain", "draw", "compile", "print", "rewrite"])
      console.log(`longest ${stage}: ${worst(({ times }) => times[stage] ?? 0)} ms`);
    console.log(`the process grew by ${results.at(-1)!.megabytes} MB`);
    let room = 0;
    results.forEach((result, at) => {
      room = Math.max(room, mostMemory(result.bytes));
      check(chosen[at], result, room);
    });
    const slow = chosen.flatMap((bomb, at) =>
      slowStages(results[at]).map((stage) => ({ bomb, at, stage, bytes: results[at].bytes })),
    );
    const named = slow.map(
      ({ bomb, at, stage, bytes }) => `${bomb.name}, ${bytes} bytes, ${stage}: ${results[at].times[stage]} ms`,
    );
    if (soak) expect(named).toEqual([]);
    for (const { bomb, at, stage, bytes } of slow) {
      console.log(`slow: ${bomb.name}, ${stage}, ${bytes} bytes`);
      // The least of several: what a file takes on this machine when nothing else comes between.
      const quarter = write(bomb, at, sizeOf(bomb) / 4);
      const again = await measure([quarter, full[at], quarter, full[at], quarter, full[at]]);
      const least = (of: number): number =>
        Math.min(...again.filter((_, run) => run % 2 === of).map(({ times }) => times[stage] ?? 0));
      expect(least(1), `${bomb.name}, ${stage}, of ${again[0].bytes} and ${bytes} bytes`).toBeLessThan(
        // What is quadratic takes four times as long for each byte.
        1_000 + (2.5 * least(0) * bytes) / again[0].bytes,
      );
    }
    if (!soak) return;
    // Half the size must take about half the time: what is quadratic would take a quarter.
    const halves = await measure(chosen.map((bomb, at) => write(bomb, at, bomb.size / 2)));
    const steep = results.flatMap(({ times, bytes }, at) =>
      Object.entries(times).flatMap(([stage, time]) => {
        const before = halves[at].times[stage] ?? 0;
        const grown = bytes / halves[at].bytes;
        const isSteep = time > 300 && grown > 1.5 && time / before > 1.6 * grown;
        return isSteep
          ? [`${chosen[at].name}, ${stage}: ${before} → ${time} ms, ${halves[at].bytes} → ${bytes} bytes`]
          : [];
      }),
    );
    expect(steep).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
