// Graphs that differ from what a pass takes in one detail, on every backend beside onnxruntime: a fusion is exact or not taken. A graph that the pass takes
// comes first, so that it is seen that the others are near it. The tests run a sample with onnxruntime's answers in a file, on WebGPU a part of it; the soak
// runs all, with onnxruntime itself where it is installed, else beside the reference implementation of the graph as it is. INSITU_ANSWERS=write, where
// onnxruntime is installed, makes the file anew and runs nothing else.
import { afterAll, describe, expect, test } from "vitest";
import { installed } from "../rewrite/peer.js";
import { type Answers, answerOf, markOf, readAnswers, resultsIn, writeAnswers } from "./near-misses/answers.js";
import { bases, keyOf, missesOf, type NearMiss, pinned } from "./near-misses/cases.js";
import { peerOf, referenceOf, type Results } from "./near-misses/oracle.js";
import { type Device, devices, difference, isFused, isTame, problemOf } from "./near-misses/run.js";
import { soak } from "../support/soak.js";

const writes = process.env["INSITU_ANSWERS"] === "write";
/** Near misses of a pass: in the tests, and at least in the soak. */
const [sampled, fewest] = [10, 30];

const passes = [...new Set(bases.map(({ pass }) => pass))];

/** A graph's results by the reference implementation; undefined where it is no graph, or where its numbers run away. */
async function tameResultsOf({ drawn }: NearMiss): Promise<Results | undefined> {
  const results = await referenceOf(drawn);
  return results !== undefined && isTame(results) ? results : undefined;
}

test.runIf(writes)("answers", { timeout: 600_000 }, async () => {
  expect(installed, "onnxruntime is installed").toBe(true);
  const answers: Record<string, Answers[string]> = {};
  for (const pass of passes) {
    const graphs: NearMiss[] = [];
    for (const miss of bases.filter((base) => base.pass === pass).flatMap(missesOf))
      if ((await tameResultsOf(miss)) !== undefined) graphs.push(miss);
    const spread = Array.from({ length: sampled }, (_, at) => graphs[Math.floor((at * graphs.length) / sampled)]);
    for (const miss of new Set([...spread, ...graphs.filter((each) => pinned.has(keyOf(each)))]))
      answers[keyOf(miss)] = answerOf(miss.drawn, await peerOf(miss.drawn));
  }
  expect([...pinned].filter((key) => !(key in answers))).toEqual([]);
  writeAnswers(answers);
});

describe.skipIf(writes)("passes", () => {
  const answers = writes ? {} : readAnswers();
  const rows: string[] = [];

  /** What onnxruntime answers; undefined where it is not there or does not know the operators. */
  async function answerTo(miss: NearMiss): Promise<Results | undefined> {
    if (soak && installed) return peerOf(miss.drawn);
    const key = keyOf(miss);
    if (!(key in answers)) return undefined;
    const told = `${key} is another graph than the one that was answered: INSITU_ANSWERS=write makes the answers anew`;
    expect(answers[key].of, told).toBe(markOf(miss.drawn));
    return resultsIn(answers[key]);
  }

  /** Where a near miss is run: in the tests few of them on WebGPU, more of those that are for it alone. */
  const isRunOn = (device: Device, miss: NearMiss, at: number): boolean =>
    soak || device === "wasm" || pinned.has(keyOf(miss)) || at % (miss.base.on?.[0] === device ? 3 : 10) === 0;

  describe.each(passes)("%s", (pass) => {
    const own = bases.filter((base) => base.pass === pass);

    test.each(own.map((base) => [base.form, base] as const))("%s is taken", async (_, base) => {
      const [expected, places] = [await referenceOf(base.drawn), base.on ?? devices];
      for (const device of devices) {
        if (places.includes(device)) expect(isFused(base, base.drawn, device), device).toBe(true);
        if (soak || device === places[0]) expect(await problemOf(base.drawn, device, expected!), device).toBe("");
      }
    });

    test("near misses", { timeout: 600_000 }, async () => {
      const misses = own.flatMap(missesOf).filter((miss) => soak || keyOf(miss) in answers);
      const counts: Record<string, number> = { graphs: 0, answered: 0, wasm: 0, webgpu: 0 };
      const wrong: string[] = [];
      for (const [at, miss] of misses.entries()) {
        const reference = await tameResultsOf(miss);
        // What is refused here is not asked: onnxruntime may end the process over graphs that are none.
        const answer = reference && (await answerTo(miss));
        const expected = answer ?? reference;
        if (reference === undefined || expected === undefined) continue;
        const check = (where: string, problem: string): boolean => {
          if (problem !== "") wrong.push(`${where}, ${keyOf(miss)}: ${problem}`);
          return problem === "";
        };
        counts["graphs"]++;
        if (answer !== undefined) counts["answered"]++;
        check("reference", difference(miss.drawn, reference, expected));
        for (const device of devices)
          if (isRunOn(device, miss, at) && check(device, await problemOf(miss.drawn, device, expected)))
            if (isFused(miss.base, miss.drawn, device)) counts[device]++;
      }
      rows.push(
        [...Object.values(counts), wrong.length].map((count) => String(count).padStart(13)).join("") + `  ${pass}`,
      );
      expect(wrong).toEqual([]);
      expect(counts["graphs"]).toBeGreaterThanOrEqual(soak ? fewest : sampled);
    });
  });

  afterAll(() => {
    const heads = ["graphs", "onnxruntime", "fused: wasm", "webgpu", "wrong"].map((head) => head.padStart(13));
    console.log([`${heads.join("")}  near misses of`, ...rows].join("\n"));
  });
});
