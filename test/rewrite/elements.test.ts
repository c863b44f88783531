// Elements against the reference implementation: in random graphs of index arithmetic, every element that is claimed is the one that running gives.
import { expect, test } from "vitest";
import { buildGraph } from "../../src/graph/build.js";
import { seededRandom } from "../../src/graph/call.js";
import { bindDim, type Dim, isKnown, type Shape } from "../../src/graph/dim.js";
import type { Value } from "../../src/graph/graph.js";
import { inferGraph } from "../../src/graph/infer.js";
import { InferenceSession } from "../../src/entry/node.js";
import { type AttributeInput, buildModel, initializer, node, value } from "../../src/onnx/build.js";
import type { ModelNode, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { operators } from "../../src/ops/index.js";
import { foldConstants } from "../../src/passes/fold-constants.js";
import type { Element } from "../../packages/rewrite/element.js";
import { elementText } from "../../packages/rewrite/element.js";
import { Elements } from "../../packages/rewrite/elements.js";
import { Ranges } from "../../packages/rewrite/ranges.js";
import { readNumbers, readIntegers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import type { View } from "../../src/tensor/view.js";
import { soak } from "../support/soak.js";

const seeds = soak ? 3000 : 120;

const dims = { rows: 3, columns: 4 } as const;

/** A graph of random nodes over two inputs; every value is an output. */
class RandomGraph {
  readonly nodes: ModelNode[] = [];
  readonly weights: ModelTensor[] = [];
  /** Values so far with their shapes in numbers and whether they are truths. */
  readonly values: { readonly name: string; readonly shape: readonly number[]; readonly bool: boolean }[] = [
    { name: "x", shape: [dims.rows, dims.columns], bool: false },
    { name: "y", shape: [dims.columns], bool: false },
  ];
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#add("Shape", ["x"], {}, [2], false);
    const [rows, columns] = [0, 1].map((at) =>
      this.#add("Gather", ["v0", this.ints([at], [])], { axis: 0 }, [], false),
    );
    this.#add("Range", [this.ints([0], []), rows, this.ints([1], [])], {}, [dims.rows], false);
    this.#add(
      "Range",
      [this.ints([2], []), this.#add("Add", [columns, this.ints([2], [])], {}, [], false), this.ints([1], [])],
      {},
      [dims.columns],
      false,
    );
    for (let step = 0; step < 24; step++) this.#step();
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)];
  }

  ints(list: readonly number[], shape: readonly number[] = [list.length]): string {
    const name = `c${this.weights.length}`;
    this.weights.push(initializer(name, new Tensor("int64", BigInt64Array.from(list, BigInt), shape)));
    return name;
  }

  #add(
    type: string,
    inputs: readonly string[],
    attributes: Record<string, AttributeInput>,
    shape: readonly number[],
    bool: boolean,
  ): string {
    const name = `v${this.nodes.length}`;
    this.nodes.push(node(type, inputs, [name], attributes));
    this.values.push({ name, shape, bool });
    return name;
  }

  #step(): void {
    const { name, shape, bool } = this.pick(this.values.filter((one) => one.shape.length > 0));
    const rank = shape.length;
    const axis = Math.floor(this.#random() * rank);
    const size = shape.reduce((product, dim) => product * dim, 1);
    const fresh = Math.floor(this.#random() * (rank + 1));
    switch (
      this.pick([
        "unsqueeze",
        "transpose",
        "reshape",
        "expand",
        "tile",
        "concat",
        "slice",
        "gather",
        "arithmetic",
        "arithmetic",
        "compare",
        "compare",
        "logic",
        "where",
        "trilu",
        "cumsum",
        "clip",
        "pad",
      ])
    ) {
      case "unsqueeze":
        if (rank < 4) this.#add("Unsqueeze", [name, this.ints([fresh])], {}, shape.toSpliced(fresh, 0, 1), bool);
        return;
      case "transpose": {
        const perm = shape.map((_, at) => at).sort(() => this.#random() - 0.5);
        this.#add(
          "Transpose",
          [name],
          { perm },
          perm.map((at) => shape[at]),
          bool,
        );
        return;
      }
      case "reshape": {
        const kept = shape.slice(0, axis);
        const rest = shape.slice(axis).reduce((product, dim) => product * dim, 1);
        const split = this.pick([
          [rest],
          ...[2, 3, 4].filter((part) => rest % part === 0).map((part) => [part, rest / part]),
        ]);
        if (kept.length + split.length <= 4)
          this.#add(
            "Reshape",
            [
              name,
              this.ints([...kept.map(() => 0), ...split.map((part, at) => (at === split.length - 1 ? -1 : part))]),
            ],
            {},
            [...kept, ...split],
            bool,
          );
        return;
      }
      case "expand": {
        if (shape[axis] !== 1) return;
        this.#add(
          "Expand",
          [name, this.ints(shape.map((dim, at) => (at === axis ? 3 : dim === 1 ? 1 : 1)))],
          {},
          shape.with(axis, 3),
          bool,
        );
        return;
      }
      case "tile":
        if (size <= 24)
          this.#add(
            "Tile",
            [name, this.ints(shape.map((_, at) => (at === axis ? 2 : 1)))],
            {},
            shape.with(axis, 2 * shape[axis]),
            bool,
          );
        return;
      case "concat": {
        const other = this.pick(
          this.values.filter(
            (one) =>
              one.bool === bool &&
              one.shape.length === rank &&
              one.shape.every((dim, at) => at === axis || dim === shape[at]),
          ),
        );
        if (size <= 24)
          this.#add("Concat", [name, other.name], { axis }, shape.with(axis, shape[axis] + other.shape[axis]), bool);
        return;
      }
      case "slice": {
        if (shape[axis] < 2) return;
        const [start, step] = [this.pick([0, 1, -1]), this.pick([1, 1, 2])];
        const from = start < 0 ? shape[axis] - 1 : start;
        this.#add(
          "Slice",
          [name, this.ints([start]), this.ints([2 ** 40]), this.ints([axis]), this.ints([step])],
          {},
          shape.with(axis, Math.ceil((shape[axis] - from) / step)),
          bool,
        );
        return;
      }
      case "gather": {
        const picked = Array.from({ length: 2 }, () => Math.floor(this.#random() * shape[axis]));
        this.#add(
          "Gather",
          [name, this.ints(picked.map((at) => (at === 0 ? 0 : at - shape[axis])))],
          { axis },
          shape.with(axis, 2),
          bool,
        );
        return;
      }
      case "clip":
        if (!bool) this.#add("Clip", [name, this.ints([this.pick([-50, 0, 1])], [])], {}, shape, false);
        return;
      case "pad":
        if (bool || size > 24) return;
        this.#add(
          "Pad",
          [
            name,
            this.ints([...shape.map((_, at) => (at === axis ? 1 : 0)), ...shape.map(() => 0)]),
            this.ints([7], []),
          ],
          {},
          shape.with(axis, shape[axis] + 1),
          false,
        );
        return;
      case "trilu":
        if (rank >= 2)
          this.#add("Trilu", [name, this.ints([this.pick([-1, 0, 1])], [])], { upper: this.pick([0, 1]) }, shape, bool);
        return;
      case "cumsum":
        if (!bool) this.#add("CumSum", [name, this.ints([axis], [])], {}, shape, false);
        return;
      default:
    }
    const others = this.values.filter(
      (one) =>
        one.shape.every((dim, at) => dim === 1 || dim === shape[rank - one.shape.length + at]) &&
        one.shape.length <= rank,
    );
    const numbers = others.filter((one) => !one.bool);
    const truths = others.filter((one) => one.bool);
    const chance = this.#random();
    if (bool && truths.length > 0) {
      if (numbers.length > 0 && this.#random() < 0.5)
        this.#add("Where", [name, this.pick(numbers).name, this.pick(numbers).name], {}, shape, false);
      else if (chance < 0.3) this.#add("Cast", [name], { to: 7 }, shape, false);
      else if (chance < 0.5) this.#add("Not", [name], {}, shape, true);
      else this.#add(this.pick(["And", "Or", "Xor"]), [name, this.pick(truths).name], {}, shape, true);
      return;
    }
    if (bool || numbers.length === 0) return;
    const right = this.#random() < 0.4 ? this.ints([this.pick([-2, 0, 1, 3])], []) : this.pick(numbers).name;
    if (this.#random() < 0.5)
      this.#add(
        this.pick(["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]),
        [name, right],
        {},
        shape,
        true,
      );
    else this.#add(this.pick(["Add", "Sub", "Mul", "Max", "Min"]), [name, right], {}, shape, false);
  }
}

type Bindings = ReadonlyMap<string, Dim>;

/** What an element is once all indices and sizes are numbers; undefined for operators that are not computed here. */
function evaluate(element: Element, bound: Bindings, results: ReadonlyMap<string, View>): number | undefined {
  // Numbers that inference has no name for stay open.
  const dim = (of: Dim): number => {
    const number = bindDim(of, bound);
    return isKnown(number) ? number : NaN;
  };
  const inner = (part: Element): number | undefined => evaluate(part, bound, results);
  switch (element.kind) {
    case "integer":
      return Number.isNaN(dim(element.value)) ? undefined : dim(element.value);
    case "number":
      return element.value;
    case "truth":
      return Number(element.value);
    case "at-least-zero":
      return Number.isNaN(dim(element.value)) ? undefined : Number(dim(element.value) >= 0);
    case "zero":
      return Number.isNaN(dim(element.value)) ? undefined : Number(dim(element.value) === 0);
    case "not":
      return inner(element.of) === undefined ? undefined : 1 - inner(element.of)!;
    case "and":
    case "or": {
      const parts = element.of.map(inner);
      if (parts.includes(undefined)) return undefined;
      return Number(element.kind === "and" ? parts.every((part) => part === 1) : parts.includes(1));
    }
    case "choose":
      return inner(element.when) === 1 ? inner(element.yes) : inner(element.when) === 0 ? inner(element.no) : undefined;
    case "read":
      if (element.index.map(dim).some(Number.isNaN)) return undefined;
      return numberAt(results.get(element.from.name)!, element.index.map(dim));
    case "lookup": {
      const table = results.get(element.from.name)!;
      const at = inner(element.at);
      const index = element.index.map(dim);
      if (at === undefined || index.some(Number.isNaN)) return undefined;
      const rows = table.shape[element.axis];
      return numberAt(table, index.with(element.axis, at < 0 ? at + rows : at));
    }
    case "call": {
      const [a, b] = element.of.map(inner);
      if (a === undefined || b === undefined) return undefined;
      const table: Record<string, (x: number, y: number) => number> = {
        Add: (x, y) => x + y,
        Sub: (x, y) => x - y,
        Mul: (x, y) => x * y,
        Max: Math.max,
        Min: Math.min,
        Less: (x, y) => Number(x < y),
        LessOrEqual: (x, y) => Number(x <= y),
        Greater: (x, y) => Number(x > y),
        GreaterOrEqual: (x, y) => Number(x >= y),
        Equal: (x, y) => Number(x === y),
        Xor: (x, y) => Number(x !== y),
      };
      // Whole numbers have one zero.
      const number = table[element.node.op.name]?.(a, b);
      return number === 0 ? 0 : number;
    }
    default:
      return element satisfies never;
  }
}

/** An element's number; undefined beside the view, where branches that are not taken may look. */
function numberAt(view: View, index: readonly number[]): number | undefined {
  if (index.some((at, axis) => at < 0 || at >= view.shape[axis])) return undefined;
  const one = index.reduce((part, at, axis) => part.slice(axis, at, at + 1), view);
  return view.type === "int64" ? readIntegers(one)[0] : readNumbers(one)[0];
}

function* indicesOf(shape: readonly number[]): Generator<number[]> {
  const size = shape.reduce((product, dim) => product * dim, 1);
  for (let flat = 0; flat < size; flat++) {
    let rest = flat;
    yield shape
      .toReversed()
      .map((dim) => {
        const at = rest % dim;
        rest = Math.floor(rest / dim);
        return at;
      })
      .toReversed();
  }
}

test("elements of random graphs are what running gives", async () => {
  let claimed = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const made = new RandomGraph(seed);
    const model = buildModel({
      opset: 20,
      inputs: [value("x", "int64", ["rows", "columns"]), value("y", "int64", ["columns"])],
      outputs: made.values.slice(2).map(({ name, bool }) => value(name, bool ? "bool" : "int64")),
      nodes: made.nodes,
      initializers: made.weights,
    });
    const session = await InferenceSession.create(writeModel(model), {
      backend: "reference",
      graphOptimizationLevel: "disabled",
    });
    const random = seededRandom(seed);
    const feed = (shape: readonly number[]): Tensor =>
      new Tensor(
        "int64",
        BigInt64Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => BigInt(Math.floor(random() * 5) - 2)),
        shape,
      );
    const feeds = { x: feed([dims.rows, dims.columns]), y: feed([dims.columns]) };
    const results = new Map(
      Object.entries({ ...feeds, ...(await session.run(feeds)) }).map(([name, tensor]) => [name, tensor.toView()]),
    );
    for (const { name, type, data, dims: own } of made.weights)
      results.set(name, new Tensor(type as "int64", data as BigInt64Array, own).toView());
    const whole = buildGraph(model, operators);
    inferGraph(whole);
    const graph = foldConstants(whole);
    const sizes: Bindings = new Map(Object.entries(dims));
    const seen = new Set<Value>(graph.nodes.flatMap((one) => one.outputs.filter((output) => output !== undefined)));
    for (const own of seen) {
      const shape: Shape | undefined = own.fact?.shape;
      if (shape === undefined || shape.some((dim) => !isKnown(bindDim(dim, sizes)))) continue;
      const ranges = new Ranges(["rows", "columns"]);
      const index = shape.map((dim, axis) => ranges.variable(`%${axis}`, dim));
      const element = new Elements(graph, ranges).of(own, index);
      if (element.kind !== "read" || element.from !== own) claimed++;
      for (const at of indicesOf(shape.map((dim) => bindDim(dim, sizes) as number))) {
        const bound = new Map([...sizes, ...at.map((number, axis) => [`%${axis}`, number] as const)]);
        const expected = numberAt(results.get(own.name)!, at);
        const actual = evaluate(element, bound, results);
        if (actual !== undefined)
          expect(actual, `seed ${seed}, ${own.name}[${at.join()}] = ${elementText(element)}`).toBe(expected);
      }
    }
    await session.release();
  }
  expect(claimed).toBeGreaterThan(1000);
});
