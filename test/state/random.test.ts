// Random models with a state: every result and every cache is what functional runs with caches carried by hand give. INSITU_SOAK runs
// 100,000 models, INSITU_SEED begins elsewhere, INSITU_COUNT runs so many. A failure prints its seed, the model and what was done with it.
import { expect, test } from "vitest";
import { installed } from "../rewrite/peer.js";
import { Counts } from "./counts.js";
import { runTrial } from "./trial.js";
import { soak } from "../support/soak.js";

const count = Number(process.env["INSITU_COUNT"] ?? (soak ? 100_000 : 60));
const seed = Number(process.env["INSITU_SEED"] ?? 20_261_204);

/** One model in five is also run by onnxruntime, one in ten also on two threads, one in 240 has rows that threads share. */
const [peerEvery, threadsEvery, wideEvery] = [5, 10, 240];

/** Half an hour of one core's time, which other suites may share. */
const timeout = soak ? 8 * 3_600_000 : 300_000;

/** Failures after which a run ends. */
const mostFailures = 10;

test(
  `${count} random models from seed ${seed}: what a state gives is what carrying caches by hand gives`,
  async () => {
    const counts = new Counts();
    const failures: string[] = [];
    const begun = performance.now();
    for (let index = 0; index < count && failures.length < mostFailures; index++) {
      const peer = installed && index % peerEvery === 0;
      const threads = index % threadsEvery === 3 ? 2 : undefined;
      try {
        await runTrial(seed + index, counts, { peer, threads, wide: index % wideEvery === 13 });
      } catch (error) {
        failures.push((error as Error).message);
        if (soak) console.log(failures.at(-1));
      }
      if (soak && (index + 1) % 5_000 === 0)
        console.log(
          `${index + 1} models after ${((performance.now() - begun) / 60_000).toFixed(1)} min: ${counts.text}`,
        );
    }
    console.log(counts.text);
    expect(failures.join("\n\n")).toBe("");
    expect(counts.graphs).toBe(count);
    if (count < 100) return; // a seed that is looked at again
    expect(counts.inPlace).toBeGreaterThan(count);
    expect(counts.copied).toBeGreaterThan(count);
    expect(counts.overlapping).toBeGreaterThan(count);
    if (installed) expect(counts.peerRuns).toBeGreaterThan(count / 4);
  },
  timeout,
);
