// The planner treats the paged write as it treats TensorScatter: the same verdicts and reasons in the same positions.
import { expect, test } from "vitest";
import type { Graph, Node } from "../../src/graph/graph.js";
import { buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { operators } from "../../src/ops/index.js";
import { makePlan, type PlanOptions } from "../../src/plan/plan.js";
import { graphOf } from "../../src/session/load.js";
import { randomGraph } from "../plan/random-graph.js";
import { soak } from "../support/soak.js";

const shape = [2, 4, 1, 3]; // [batch, capacity, 1, size], or [blocks, block_size, heads, size]

/** A node that writes `past` and makes `present`. */
type Writer = (past: string, present: string) => ModelNode;

const name = (present: string): { name: string; domain: string } => ({ name: `write_${present}`, domain: "insitu" });
const writers: Record<"TensorScatter" | "key cache" | "value cache", Writer> = {
  TensorScatter: (past, present) =>
    node("TensorScatter", [past, "row", "where"], [present], { axis: 1 }, { name: `write_${present}` }),
  "key cache": (past, present) => node("ScatterPaKvCache", ["token", past, "where"], [present], {}, name(present)),
  "value cache": (past, present) =>
    node("ScatterPaKvCache", ["token", "elsewhere", "where", "token", past], [undefined, present], {}, name(present)),
};

interface Position {
  readonly nodes: (writer: Writer) => readonly ModelNode[];
  readonly outputs: readonly string[];
  readonly initializers?: readonly ModelTensor[];
}

const positions: Record<string, Position> = {
  alone: { nodes: (write) => [write("past", "present")], outputs: ["present"] },
  "a reader listed after it": {
    nodes: (write) => [write("past", "present"), node("Neg", ["past"], ["old"])],
    outputs: ["present", "old"],
  },
  "a reader that needs the result": {
    nodes: (write) => [write("past", "present"), node("Add", ["past", "present"], ["sum"], {}, { name: "sum" })],
    outputs: ["present", "sum"],
  },
  "the old value is an output": { nodes: (write) => [write("past", "present")], outputs: ["present", "past"] },
  "a view of the old value is an output": {
    nodes: (write) => [node("Identity", ["past"], ["shown"]), write("past", "present")],
    outputs: ["present", "shown"],
  },
  "a reader of a view that needs the result": {
    nodes: (write) => [
      node("Identity", ["past"], ["shown"]),
      write("past", "present"),
      node("Add", ["shown", "present"], ["sum"], {}, { name: "sum" }),
    ],
    outputs: ["present", "sum"],
  },
  "an initializer": {
    nodes: (write) => [write("constant", "present")],
    outputs: ["present"],
    initializers: [initializer("constant", "float32", new Float32Array(24), shape)],
  },
  "an intermediate value": {
    nodes: (write) => [node("Neg", ["past"], ["made"]), write("made", "present")],
    outputs: ["present"],
  },
  "two writers of one cache": {
    nodes: (write) => [write("past", "first"), write("past", "second")],
    outputs: ["first", "second"],
  },
  "one writer after the other": {
    nodes: (write) => [write("past", "first"), write("first", "second")],
    outputs: ["second"],
  },
  "the first of two results is an output": {
    nodes: (write) => [write("past", "first"), write("first", "second")],
    outputs: ["first", "second"],
  },
};

/** Verdicts as text, with the operator's name made alike. */
function verdictsOf(graph: Graph, options: PlanOptions): string[] {
  return makePlan(graph, options).verdicts.map((verdict) =>
    `${verdict.root.name}: ${verdict.past.name} → ${verdict.present.name}: ${verdict.inPlace}, ${verdict.isCache}, ${verdict.reason}`.replaceAll(
      "ScatterPaKvCache",
      "TensorScatter",
    ),
  );
}

const policies: readonly PlanOptions[] = [{}, { pasts: "caller" }, { policy: "never" }];

for (const [position, { nodes, outputs, initializers = [] }] of Object.entries(positions)) {
  test(`${position}: the verdicts of TensorScatter`, () => {
    const graph = (writer: Writer): Graph =>
      graphOf(
        buildModel({
          opset: { "": 24, insitu: 1 },
          inputs: [
            value("past", "float32", shape),
            value("elsewhere", "float32", shape),
            value("row", "float32", [2, 1, 1, 3]),
            value("token", "float32", [2, 1, 3]),
            value("where", "int64", [2]),
          ],
          outputs: outputs.map((output) => value(output, "float32", shape)),
          nodes: nodes(writer),
          initializers,
        }),
      );
    for (const options of policies) {
      const expected = verdictsOf(graph(writers.TensorScatter), options);
      expect(expected.length).toBeGreaterThan(0);
      expect(verdictsOf(graph(writers["key cache"]), options)).toEqual(expected);
      expect(verdictsOf(graph(writers["value cache"]), options)).toEqual(expected);
    }
    const strict = (writer: Writer): string => {
      try {
        return String(makePlan(graph(writer), { policy: "require" }).verdicts.length);
      } catch (error) {
        return (error as Error).message.replaceAll("ScatterPaKvCache", "TensorScatter");
      }
    };
    expect(strict(writers["key cache"])).toBe(strict(writers.TensorScatter));
    expect(strict(writers["value cache"])).toBe(strict(writers.TensorScatter));
  });
}

const count = soak ? 5_000 : 500;
const seed = Number(process.env["INSITU_SEED"] ?? 7_700_177);
const paged = operators.find("insitu", "ScatterPaKvCache", 1)!;

/** The graph with every TensorScatter in the clothes of a paged write: the planner looks at what operators declare. */
function dressed(graph: Graph, side: "key" | "value"): Graph {
  const nodes = graph.nodes.map((entry): Node => {
    if (entry.op.name !== "TensorScatter") return entry;
    const [past, row, where] = entry.inputs;
    return {
      ...entry,
      op: paged,
      label: entry.label.replace("TensorScatter", "ScatterPaKvCache"),
      inputs: side === "key" ? [row, past, where] : [row, row, where, row, past],
      outputs: side === "key" ? entry.outputs : [undefined, ...entry.outputs],
    };
  });
  return { ...graph, nodes };
}

test(`${count} random graphs from seed ${seed}: the verdicts of TensorScatter`, () => {
  let verdicts = 0;
  for (let number = 0; number < count; number++) {
    const graph = graphOf(randomGraph(seed + number).model);
    for (const options of policies) {
      const expected = verdictsOf(graph, options);
      verdicts += expected.length;
      expect(verdictsOf(dressed(graph, "key"), options), `seed ${seed + number}`).toEqual(expected);
      expect(verdictsOf(dressed(graph, "value"), options), `seed ${seed + number}`).toEqual(expected);
    }
  }
  expect(verdicts).toBeGreaterThan(count);
});
