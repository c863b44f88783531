// The pictures of docs/in-place.md, by the code that draws for `insitu inspect --svg`.
import { drawPlan } from "../../tools/pictures/draw.js";
import { makePlan } from "../../src/plan/plan.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { examples } from "./examples.js";

/** SVG documents by file name. */
export function pictures(): Map<string, string> {
  return new Map(
    examples.map(({ name, title, model }) => {
      const { graph, removed } = preparedGraphOf(model);
      const facts = { weightBytes: 0, arenaBytes: undefined, removed };
      return [`${name}.svg`, drawPlan(makePlan(graph), facts, { title, heading: false })];
    }),
  );
}
