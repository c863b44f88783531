// Models whose runs are refused after a cache was written: each way to write a cache, followed by each thing that can still refuse
// because of data, whose index is fed, computed, or known only once the cache is written.
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "../../src/onnx/model.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { int64 } from "../support/decoding.js";

export type Feeds = Record<string, Tensor>;

const numbers = (dims: readonly number[], from = 0): Tensor =>
  new Tensor(
    "float32",
    Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, at) => Math.sin(from + at)),
    dims,
  );

/** A way to write a cache: the model's part, and the feeds of a step. */
export interface Writer {
  readonly name: string;
  readonly inputs: readonly ModelValue[];
  readonly outputs: readonly ModelValue[];
  readonly nodes: readonly ModelNode[];
  /** A value made of what was written. */
  readonly written: string;
  feeds(step: number): Feeds;
}

const past = (shape: (number | string)[]): ModelValue => value("past", "float32", shape);

export const writers: readonly Writer[] = [
  {
    name: "TensorScatter",
    inputs: [past([2, 8, 4]), value("rows", "float32", [2, "n", 4]), value("where", "int64", [2])],
    outputs: [value("present", "float32", [2, 8, 4])],
    nodes: [node("TensorScatter", ["past", "rows", "where"], ["present"], { axis: 1 }, { name: "append" })],
    written: "present",
    feeds: (step) => ({ rows: numbers([2, 1, 4], step), where: int64([step, step + 1]) }),
  },
  {
    name: "TensorScatter, circular",
    inputs: [past([2, 4, 3, 2]), value("rows", "float32", [2, 4, "n", 2]), value("where", "int64", [2])],
    outputs: [value("present", "float32", [2, 4, 3, 2])],
    nodes: [
      node("TensorScatter", ["past", "rows", "where"], ["present"], { axis: 2, mode: "circular" }, { name: "append" }),
    ],
    written: "present",
    feeds: (step) => ({ rows: numbers([2, 4, 2, 2], step), where: int64([step, step + 2]) }),
  },
  {
    name: "a chain of two",
    inputs: [past([2, 8, 4]), value("rows", "float32", [2, 1, 4]), value("where", "int64", [2])],
    outputs: [value("present", "float32", [2, 8, 4])],
    nodes: [
      node("TensorScatter", ["past", "rows", "where"], ["first"], { axis: 1 }, { name: "one" }),
      node("TensorScatter", ["first", "rows"], ["present"], { axis: 1 }, { name: "two" }),
    ],
    written: "present",
    feeds: (step) => ({ rows: numbers([2, 1, 4], step), where: int64([step + 1, step]) }),
  },
  {
    name: "ScatterND",
    inputs: [past([2, 8, 4]), value("rows", "float32", [2, 4]), value("where", "int64", [2, 2])],
    outputs: [value("present", "float32", [2, 8, 4])],
    nodes: [node("ScatterND", ["past", "where", "rows"], ["present"], {}, { name: "append" })],
    written: "present",
    feeds: (step) => ({ rows: numbers([2, 4], step), where: int64([0, step, 1, -1 - step], [2, 2]) }),
  },
  {
    name: "ScatterElements",
    inputs: [past([2, 8, 4]), value("rows", "float32", [2, 2, 4]), value("where", "int64", [2, 2, 4])],
    outputs: [value("present", "float32", [2, 8, 4])],
    nodes: [node("ScatterElements", ["past", "where", "rows"], ["present"], { axis: 1 }, { name: "append" })],
    written: "present",
    feeds: (step) => ({
      rows: numbers([2, 2, 4], step),
      where: int64(
        Array.from({ length: 16 }, (_, at) => ((at + step) % 8) - (at % 2) * 8),
        [2, 2, 4],
      ),
    }),
  },
  {
    name: "Attention's own cache",
    inputs: [
      value("past", "float32", [2, 1, "p", 4]),
      value("past_value", "float32", [2, 1, "p", 4]),
      value("rows", "float32", [2, 1, "n", 4]),
    ],
    outputs: [value("present", "float32", [2, 1, "t", 4]), value("present_value", "float32", [2, 1, "t", 4])],
    nodes: [
      node(
        "Attention",
        ["rows", "rows", "rows", "", "past", "past_value"],
        ["attended", "present", "present_value"],
        {},
        { name: "attend" },
      ),
    ],
    written: "attended",
    feeds: (step) => ({ rows: numbers([2, 1, 1, 4], step) }),
  },
  {
    name: "a recurrent state",
    inputs: [
      value("past", "float32", [2, 4, 3]),
      value("rows", "float32", [2, 4, "n"]),
      value("taps", "float32", [4, 1, 4]),
    ],
    outputs: [value("present", "float32", [2, 4, 3])],
    nodes: [
      node("CausalConvWithState", ["rows", "taps", "", "past"], ["convolved", "present"], {}, { name: "convolve" }),
    ],
    written: "convolved",
    feeds: (step) => ({ rows: numbers([2, 4, 2], step), taps: numbers([4, 1, 4], 3) }),
  },
  {
    name: "pages",
    inputs: [
      past([4, 2, 1, 4]),
      value("past_value", "float32", [4, 2, 1, 4]),
      value("rows", "float32", [2, 1, 4]),
      value("where", "int64", [2]),
    ],
    outputs: [value("present", "float32", [4, 2, 1, 4]), value("present_value", "float32", [4, 2, 1, 4])],
    nodes: [
      node(
        "ScatterPaKvCache",
        ["rows", "past", "where", "rows", "past_value"],
        ["present", "present_value"],
        {},
        { name: "page", domain: "insitu" },
      ),
    ],
    written: "present",
    feeds: (step) => ({ rows: numbers([2, 1, 4], step), where: int64([step, 7 - step]) }),
  },
];

/** Something that may refuse: takes `index`, of this type and shape, and gives an output. */
export interface Obstacle {
  readonly name: string;
  readonly type: "int64" | "int32";
  readonly shape: readonly number[];
  readonly good: readonly number[];
  readonly bad: readonly (readonly number[])[];
  readonly initializers?: readonly ModelTensor[];
  nodes(index: string): readonly ModelNode[];
}

const wild = [1000, -1000, 2 ** 31, -(2 ** 31), 2 ** 32 + 1];
const each = (count: number): number[][] =>
  wild.map((bad, at) => Array.from({ length: count }, (_, position) => (position === at % count ? bad : 0)));
const table = initializer("table", numbers([3, 4], 9));
const cube = initializer("cube", numbers([2, 3, 4], 5));
const heads = initializer("heads", numbers([1, 2, 3, 4], 2));

const branch = (op: string): ReturnType<typeof graph> =>
  graph({ name: op, outputs: [value("inner", "float32", [2, 4])], nodes: [node(op, ["table", "index"], ["inner"])] });

export const obstacles: readonly Obstacle[] = [
  {
    name: "Gather",
    type: "int64",
    shape: [2],
    good: [0, 2],
    bad: each(2),
    initializers: [table],
    nodes: (index) => [node("Gather", ["table", index], ["y"])],
  },
  {
    name: "GatherElements",
    type: "int64",
    shape: [1, 4],
    good: [0, 1, 2, 0],
    bad: each(4),
    initializers: [table],
    nodes: (index) => [node("GatherElements", ["table", index], ["y"])],
  },
  {
    name: "GatherND",
    type: "int64",
    shape: [1, 2],
    good: [1, 3],
    bad: each(2),
    initializers: [table],
    nodes: (index) => [node("GatherND", ["table", index], ["y"])],
  },
  {
    name: "ScatterND",
    type: "int64",
    shape: [1, 2],
    good: [1, 3],
    bad: each(2),
    initializers: [table, initializer("one", "float32", [1], [1])],
    nodes: (index) => [node("ScatterND", ["table", index, "one"], ["y"])],
  },
  {
    name: "ScatterElements",
    type: "int64",
    shape: [1, 1],
    good: [1],
    bad: each(1),
    initializers: [table, initializer("one", "float32", [1], [1, 1])],
    nodes: (index) => [node("ScatterElements", ["table", index, "one"], ["y"])],
  },
  {
    name: "a second cache's index",
    type: "int64",
    shape: [2],
    good: [0, 1],
    bad: [
      [3, 0],
      [0, -1],
      [0, 2 ** 32],
    ],
    initializers: [cube, initializer("one", numbers([2, 1, 4]))],
    nodes: (index) => [node("TensorScatter", ["cube", "one", index], ["y"], { axis: 1 })],
  },
  {
    name: "valid rows of an outer cache",
    type: "int64",
    shape: [1],
    good: [2],
    bad: [[4], [-1], [2 ** 32 + 1]],
    initializers: [heads],
    nodes: (index) => [node("Attention", ["heads", "heads", "heads", "", "", "", index], ["y"])],
  },
  {
    name: "RotaryEmbedding",
    type: "int64",
    shape: [1, 3],
    good: [0, 1, 2],
    bad: each(3),
    initializers: [heads, initializer("angles", numbers([3, 2]))],
    nodes: (index) => [node("RotaryEmbedding", ["heads", "angles", "angles", index], ["y"])],
  },
  {
    name: "ReverseSequence",
    type: "int64",
    shape: [2],
    good: [1, 2],
    bad: each(2),
    initializers: [cube],
    nodes: (index) => [node("ReverseSequence", ["cube", index], ["y"], { batch_axis: 0, time_axis: 1 })],
  },
  {
    name: "CumSum",
    type: "int64",
    shape: [1],
    good: [1],
    bad: [[2], [-3], [2 ** 32]],
    initializers: [table],
    nodes: (index) => [node("CumSum", ["table", index], ["y"])],
  },
  {
    name: "Compress",
    type: "int64",
    shape: [4],
    good: [1, 0, 1, 0],
    bad: [[1, 0, 0, 1]],
    initializers: [table],
    nodes: (index) => [
      node("Cast", [index], ["mask"], { to: 9 }),
      node("Compress", ["table", "mask"], ["y"], { axis: 0 }),
    ],
  },
  {
    name: "Reshape",
    type: "int64",
    shape: [2],
    good: [4, 3],
    bad: [
      [5, 3],
      [-2, 6],
      [-1, 5],
    ],
    initializers: [table],
    nodes: (index) => [node("Reshape", ["table", index], ["y"])],
  },
  {
    name: "Expand",
    type: "int64",
    shape: [2],
    good: [3, 4],
    bad: [
      [2, 4],
      [3, -1],
    ],
    initializers: [table],
    nodes: (index) => [node("Expand", ["table", index], ["y"])],
  },
  {
    name: "Slice",
    type: "int64",
    shape: [1],
    good: [2],
    bad: [[0]],
    initializers: [table, initializer("from", "int64", [0n], [1]), initializer("to", "int64", [3n], [1])],
    nodes: (index) => [node("Slice", ["table", "from", "to", "from", index], ["y"])],
  },
  {
    name: "Tile",
    type: "int64",
    shape: [2],
    good: [1, 2],
    bad: [[-1, 2]],
    initializers: [table],
    nodes: (index) => [node("Tile", ["table", index], ["y"])],
  },
  {
    name: "TopK",
    type: "int64",
    shape: [1],
    good: [2],
    bad: [[5], [-1]],
    initializers: [table],
    nodes: (index) => [node("TopK", ["table", index], ["y", "at"])],
  },
  {
    name: "Range",
    type: "int64",
    shape: [],
    good: [2],
    bad: [[0]],
    initializers: [initializer("from", "int64", [0n], []), initializer("to", "int64", [6n], [])],
    nodes: (index) => [node("Range", ["from", "to", index], ["y"])],
  },
  {
    name: "Split",
    type: "int64",
    shape: [2],
    good: [1, 2],
    bad: [
      [1, 1],
      [4, -1],
    ],
    initializers: [table],
    nodes: (index) => [node("Split", ["table", index], ["y", "rest"])],
  },
  {
    name: "a branch that gathers",
    type: "int64",
    shape: [2],
    good: [0, 2],
    bad: each(2),
    initializers: [table, initializer("yes", "bool", [1], [])],
    nodes: (index) => [
      node("Identity", [index], ["index"]),
      node("If", ["yes"], ["y"], { then_branch: branch("Gather"), else_branch: branch("Gather") }),
    ],
  },
  {
    name: "int32 indices",
    type: "int32",
    shape: [2],
    good: [0, -3],
    bad: [
      [3, 0],
      [0, -4],
      [2 ** 31 - 1, 0],
    ],
    initializers: [table],
    nodes: (index) => [node("Gather", ["table", index], ["y"])],
  },
];

/** How the index reaches the obstacle. */
export const routes = ["fed", "computed", "behind the write", "listed first"] as const;
export type Route = (typeof routes)[number];

/** A model that writes a cache and then meets the obstacle. */
export function refusingModel(writer: Writer, obstacle: Obstacle, route: Route): Model {
  const { type, shape } = obstacle;
  const code = type === "int64" ? 7 : 6;
  const wanted = route === "fed" || route === "listed first" ? "given" : "index_of_obstacle";
  const way: ModelNode[] =
    route === "computed"
      ? [node("Neg", ["given"], ["opposite"]), node("Neg", ["opposite"], ["index_of_obstacle"])]
      : route === "behind the write"
        ? [
            node("ReduceMax", [writer.written], ["largest"], { keepdims: 0 }),
            node("Mul", ["largest", "nothing"], ["zero"]),
            node("Cast", ["zero"], ["none"], { to: code }),
            node("Add", ["given", "none"], ["index_of_obstacle"]),
          ]
        : [];
  const rest = obstacle.nodes(wanted);
  const before = route === "listed first";
  return buildModel({
    opset: { "": 27, insitu: 1 },
    inputs: [...writer.inputs, value("given", type, [...shape])],
    outputs: [...writer.outputs, value("y", undefined)],
    initializers: [...(obstacle.initializers ?? []), initializer("nothing", "float32", [0], [])],
    nodes: before ? [...rest, ...writer.nodes] : [...writer.nodes, ...way, ...rest],
  });
}

/** The obstacle's index as a tensor. */
export const indexTensor = ({ type, shape }: Obstacle, values: readonly number[]): Tensor =>
  type === "int64" ? int64(values, shape) : new Tensor("int32", Int32Array.from(values), shape);
