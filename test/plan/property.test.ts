// Random graphs planned with sharing give the bits that the same graphs give with inPlace: "never"; and where the planner says
// no, forcing the alias changes a result.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { seededRandom } from "../../src/graph/call.js";
import { of } from "../../tools/cases/shared/case.js";
import type { Graph } from "../../src/graph/graph.js";
import { makePlan } from "../../src/plan/plan.js";
import { graphOf } from "../../src/session/load.js";
import type { View } from "../../src/tensor/view.js";
import { compareBits } from "../support/compare.js";
import { randomGraph } from "./random-graph.js";
import { runPlan } from "./run-plan.js";
import { soak } from "../support/soak.js";

const count = soak ? 20_000 : 300;
const seed = Number(process.env["INSITU_SEED"] ?? 20_261_115);

/** Feeds for two runs: caches are given once and carried on, everything else changes. */
const feedsOf = (graph: Graph, from: number): Map<string, View>[] => [
  randomFeeds(graph.inputs, from),
  randomFeeds(
    graph.inputs.filter(({ name }) => !name.startsWith("past")),
    from + 104_729,
  ),
];

function randomFeeds(inputs: Graph["inputs"], from: number): Map<string, View> {
  const random = seededRandom(from);
  return new Map(
    inputs.map((value) => {
      const shape = value.fact!.shape as number[];
      const size = shape.reduce((product, dim) => product * dim, 1);
      const values = Array.from({ length: size }, () => {
        if (value.fact!.type === "float32") return Math.fround(random() * 8 - 4);
        return value.fact!.type === "bool" ? Number(random() < 0.5) : Math.floor(random() * 4);
      });
      return [value.name, of(value.fact!.type, shape, values)];
    }),
  );
}

const differ = (a: View[][], b: View[][]): string => {
  for (const [run, views] of a.entries()) {
    for (const [at, view] of views.entries()) {
      const problem = compareBits(view, b[run][at]);
      if (problem !== "") return `run ${run}, output ${at}: ${problem}`;
    }
  }
  return "";
};

test(`${count} random graphs from seed ${seed}: shared buffers change no bit, and every refusal has its reason`, async () => {
  const counts = { inPlace: 0, refused: 0, needless: 0, required: 0, requireRefused: 0 };
  const needless: string[] = [];
  for (let index = 0; index < count; index++) {
    const graph = graphOf(randomGraph(seed + index).model);
    const feeds = feedsOf(graph, seed + index);
    const functional = await runPlan(graph, { policy: "never" }, feeds);
    const shared = await runPlan(graph, { policy: "prefer" }, feeds);
    expect(differ(shared.outputs, functional.outputs), `seed ${seed + index}`).toBe("");
    const refused = shared.plan.verdicts.filter((verdict) => !verdict.inPlace);
    counts.inPlace += shared.plan.verdicts.length - refused.length;
    try {
      const strict = makePlan(graph, { policy: "require" });
      counts.required++;
      expect(
        strict.verdicts.filter((verdict) => verdict.isCache && !verdict.inPlace),
        `seed ${seed + index}`,
      ).toEqual([]);
    } catch (error) {
      counts.requireRefused++;
      expect(error, `seed ${seed + index}`).toBeInstanceOf(InsituError);
      expect((error as InsituError).code).toBe("not-in-place");
      expect(
        refused.some(
          ({ past, reason }) =>
            (error as Error).message.includes(`"${past.name}"`) && (error as Error).message.includes(reason),
        ),
      ).toBe(true);
    }
    for (const verdict of refused) {
      counts.refused++;
      let changed = false;
      for (let trial = 0; trial < 10 && !changed; trial++) {
        const inputs = feedsOf(graph, seed + index + 7919 * (trial + 1));
        const honest = await runPlan(graph, { policy: "never" }, inputs);
        const forced = await runPlan(
          graph,
          { policy: "prefer", force: ({ node, present }) => node === verdict.node && present === verdict.present },
          inputs,
        );
        changed = differ(forced.outputs, honest.outputs) !== "";
      }
      if (!changed) {
        counts.needless++;
        needless.push(`seed ${seed + index}: ${verdict.node.label}: ${verdict.reason}`);
      }
    }
  }
  console.log(
    `${JSON.stringify(counts)}\nrefused without a visible difference (${needless.length}):\n${needless.slice(0, 12).join("\n")}`,
  );
  expect(counts.inPlace).toBeGreaterThan(count / 2);
  expect(counts.required).toBeGreaterThan(count / 20);
  expect(counts.refused).toBeGreaterThan(count / 10);
  expect(counts.needless / counts.refused).toBeLessThanOrEqual(0.05);
});
