// The life of a cache as pictures show it: buffers, events in the order of the plan, and what is at fault.
import { expect, test } from "vitest";
import { node } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { drawPlan } from "../../tools/pictures/draw.js";
import { explanationOf } from "../../packages/explain/gather.js";
import { patternOf, rangeText } from "../../packages/explain/groups.js";
import { groupLanes, type Lane, lanesOf } from "../../tools/pictures/lanes.js";
import { makePlan } from "../../src/plan/plan.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { append, appendInBranch, around, cache, flag } from "./graphs.js";

function lanes(model: Model): Lane[] {
  const { graph, removed } = preparedGraphOf(model);
  return lanesOf(explanationOf(makePlan(graph), { removed }));
}

/** `role op buffers` of each event. */
const story = ({ events }: Lane): string[] =>
  events.map(({ role, op, buffers, into, atFault }) =>
    [role, op, buffers.join("+"), ...(into === undefined ? [] : [`→ ${into}`]), ...(atFault ? ["!"] : [])].join(" "),
  );

test("in place: one buffer, the reader moved first", () => {
  const [lane, ...others] = lanes(
    around([append("past", "present", "append"), node("Neg", ["past"], ["result"])], {
      outputs: [cache("present"), cache("result")],
    }),
  );
  expect(others).toEqual([]);
  expect(story(lane)).toEqual(["read Neg 0", "write TensorScatter 0"]);
  expect(lane).toMatchObject({ name: "past", owner: "held by the state", buffers: [{ first: -1, last: 2 }] });
  expect(lane.outputs).toEqual([{ name: "present", buffer: 0, atFault: false }]);
});

test("copied: a second buffer, and the reader at fault on both", () => {
  const [lane] = lanes(
    around(
      [append("past", "present", "append"), node("Sub", ["present", "past"], ["result"], {}, { name: "differ" })],
      {
        outputs: [cache("present"), cache("result")],
      },
    ),
  );
  expect(story(lane)).toEqual(["copy TensorScatter 0 → 1", "read Sub 0+1 !"]);
  expect(lane.buffers).toMatchObject([
    { first: -1, last: 1 },
    { first: 0, last: 2 },
  ]);
});

test("an output at fault, views not drawn, many readers drawn as one", () => {
  const readers = Array.from({ length: 9 }, (_, at) => node("Neg", ["past"], [`r${at}`]));
  const sum = node(
    "Sum",
    readers.map(({ outputs }) => outputs[0]),
    ["sum"],
  );
  const [lane] = lanes(
    around([node("Identity", ["past"], ["old"]), ...readers, sum, append("past", "present", "append")], {
      outputs: [cache("present"), cache("old"), cache("sum")],
    }),
  );
  expect(story(lane)).toEqual([
    "read Neg 0",
    "read Neg 0",
    "read Neg 0",
    "read + 6 readers 0",
    "copy TensorScatter 0 → 1",
  ]);
  expect(lane.outputs).toEqual([
    { name: "present", buffer: 1, atFault: false },
    { name: "old", buffer: 0, atFault: true },
  ]);
});

test("an update in a body has a lane of its own", () => {
  const [lane] = lanes(around([appendInBranch([append("past", "inner", "append")], "inner")], { inputs: [flag] }));
  expect(story(lane)).toEqual(["copy TensorScatter in If 0 → 1 !"]);
});

test("layers alike are one lane", () => {
  const all = lanes(generatedDecoder({ ...smallSizes, layers: 10 }));
  expect(all).toHaveLength(20);
  const grouped = groupLanes(all);
  expect(grouped.map(({ name, count }) => `${name} ${count}`)).toEqual(["past.0…9.key 10", "past.0…9.value 10"]);
});

test("names of one pattern", () => {
  expect(patternOf("past.12.key")).toBe("past.#.key");
  expect(rangeText(["l.3.k8", "l.1.k8", "l.2.k8"])).toBe("l.1…3.k8");
  expect(rangeText(["a"])).toBe("a");
});

test("a picture is well formed, whatever the names", () => {
  const { graph } = preparedGraphOf(around([append("past", "present", `<&"'>`)]));
  const svg = drawPlan(makePlan(graph), { weightBytes: 0, arenaBytes: 0 }, { title: "a < b & c" });
  expect(svg).not.toMatch(/&(?!amp;|lt;|gt;|quot;)/);
  expect(svg.match(/<text/g)!.length).toBe(svg.match(/<\/text>/g)!.length);
  expect(svg).toContain("&lt;&amp;&quot;'&gt;");
});
