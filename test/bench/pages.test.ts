// The load `pages`: everyone who takes part gives the same result. Nothing here depends on how long anything takes.
import { expect, test } from "vitest";
import { pages } from "../../tools/bench/pages.js";
import { runBench } from "../../tools/bench/run.js";

test("all who take part agree, on one thread and on two", async () => {
  for (const threads of [1, 2]) {
    const found = { peers: [], missing: [] };
    const report = await runBench([pages], { quick: true, repeats: 1, threads, found });
    expect(report.loads[0].groups.length).toBeGreaterThan(1);
    for (const { name, contestants } of report.loads[0].groups)
      for (const { name: who, problem } of contestants) expect(problem, `${name}: ${who}`).toBeNull();
  }
});
