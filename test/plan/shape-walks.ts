// Models whose inputs have other shapes at every run, and random walks through those shapes: growing, shrinking, other batches, no past.
import { seededRandom } from "../../src/graph/call.js";
import type { Graph, Value } from "../../src/graph/graph.js";
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model } from "../../src/onnx/model.js";
import { writeIntegers, writeNumbers } from "../../src/tensor/access.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";

/** The sizes of one run. */
export interface Sizes {
  readonly batch: number;
  readonly sequence: number;
  readonly past: number;
}

/** A walk of `count` runs: prompts, tokens behind them one by one, steps back, other batches, which have no prompts behind a past. */
export function walk(seed: number, count: number, most = 24): Sizes[] {
  const random = seededRandom(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const sizes: Sizes[] = [];
  let [batch, past] = [1, 0];
  while (sizes.length < count) {
    const choice = random();
    if (choice < 0.15) [batch, past] = [1 + below(3), 0];
    if (choice > 0.85) past = below(past + 1);
    const sequence = choice < 0.3 && (batch === 1 || past === 0) ? 1 + below(6) : 1;
    if (past + sequence > most) past = 0;
    sizes.push({ batch, sequence, past });
    past += sequence;
  }
  return sizes;
}

/** What a decoder is fed at these sizes. Masks are ones, some with a hole at their start where there are several samples. */
export function feedsOf({ inputs }: Graph, sizes: Sizes, random: () => number): View[] {
  const { batch, sequence, past } = sizes;
  const sizeOf = ({ name }: Value, axis: number): number => {
    if (axis === 0) return batch;
    if (name === "attention_mask") return past + sequence;
    return name.startsWith("past") ? past : sequence;
  };
  return inputs.map((input) => {
    const { type, shape } = input.fact!;
    const dims = shape!.map((dim, axis) => (typeof dim === "number" ? dim : sizeOf(input, axis)));
    const view = View.allocate(type, dims);
    const all = Array.from({ length: view.size }, (_, at) => at);
    if (input.name === "attention_mask")
      writeIntegers(
        view,
        all.map((at) => (batch > 1 && past > 1 && at === 0 ? 0 : 1)),
      );
    else if (input.name === "position_ids")
      writeIntegers(
        view,
        all.map((at) => past + (at % sequence)),
      );
    else if (input.name === "seqlens_k") writeIntegers(view, new Array<number>(batch).fill(past + sequence - 1));
    else if (input.name === "total_sequence_length") writeIntegers(view, [past + sequence]);
    else if (traitsOf(type).kind === "integer")
      writeIntegers(
        view,
        all.map(() => Math.floor(random() * 100)),
      );
    else
      writeNumbers(
        view,
        all.map(() => random() - 0.5),
      );
    return view;
  });
}

const one = (name: string, number: number): ReturnType<typeof initializer> =>
  initializer(name, "int64", [BigInt(number)], [1]);

/**
 * Attention written out, with its mask made of shapes as exporters do (Shape, Gather, Range, Slice), a branch that shapes choose, a loop whose
 * count is a length, and rows that only data choose where `data` asks for them.
 */
export function chainModel({ data }: { readonly data: boolean }): Model {
  const branch = (name: string, op: string): ReturnType<typeof graph> =>
    graph({
      name,
      nodes: [node(op, ["all", "one"], [`${name}.out`], { keepdims: 0 })],
      outputs: [value(`${name}.out`, "float32")],
    });
  const body = graph({
    name: "body",
    inputs: [value("at", "int64", []), value("on", "bool", []), value("carried", "float32")],
    nodes: [
      node("Identity", ["on"], ["still"]),
      node("Mul", ["carried", "rate"], ["less"]),
      node("Add", ["less", "branched"], ["more"]),
    ],
    outputs: [value("still", "bool", []), value("more", "float32")],
  });
  return buildModel({
    opset: 18,
    inputs: [
      value("x", "float32", ["batch", "sequence", 4]),
      value("past", "float32", ["batch", "past", 4]),
      value("bias", "float32", [4]),
    ],
    outputs: [
      value("y", "float32", ["batch", "sequence", 4]),
      value("present", "float32", ["batch", "total", 4]),
      value("tail", "float32"),
      value("looped", "float32"),
      value("table", "float32"),
      ...(data ? [value("chosen", "float32")] : []),
    ],
    initializers: [
      one("zero", 0),
      one("one", 1),
      one("three", -3),
      one("far", 2 ** 40),
      one("six", 6),
      one("minus", -1),
      initializer("0", "int64", [0n], []),
      initializer("1", "int64", [1n], []),
      initializer("low", "float32", [-1e9], []),
      initializer("none", "float32", [0], []),
      initializer("rate", "float32", [0.75], []),
      initializer("angle", "float32", [0.1], []),
    ],
    nodes: [
      node("Concat", ["past", "x"], ["all"], { axis: 1 }),
      node("Identity", ["all"], ["present"]),
      node("Shape", ["all"], ["all.shape"]),
      node("Gather", ["all.shape", "1"], ["total"]),
      node("Shape", ["x"], ["x.shape"]),
      node("Gather", ["x.shape", "1"], ["sequence"]),
      node("Sub", ["total", "sequence"], ["before"]),
      node("Range", ["before", "total", "1"], ["queries"]),
      node("Range", ["0", "total", "1"], ["keys"]),
      node("Unsqueeze", ["queries", "one"], ["queries.column"]),
      node("LessOrEqual", ["keys", "queries.column"], ["mask"]),
      node("Where", ["mask", "none", "low"], ["mask.bias"]),
      node("Cast", ["queries"], ["positions"], { to: 1 }),
      node("Mul", ["positions", "angle"], ["angles"]),
      node("Cos", ["angles"], ["cosines"]),
      node("Unsqueeze", ["cosines", "one"], ["table"]),
      node("Mul", ["x", "table"], ["turned"]),
      node("Add", ["turned", "bias"], ["moved"]),
      node("Transpose", ["all"], ["across"], { perm: [0, 2, 1] }),
      node("MatMul", ["moved", "across"], ["scores"]),
      node("Add", ["scores", "mask.bias"], ["masked"]),
      node("Softmax", ["masked"], ["weights"], { axis: -1 }),
      node("MatMul", ["weights", "all"], ["y"]),
      node("Slice", ["all", "three", "far", "one"], ["tail"]),
      node("Unsqueeze", ["total", "zero"], ["total.list"]),
      node("Greater", ["total.list", "six"], ["many.list"]),
      node("Squeeze", ["many.list", "zero"], ["many"]),
      node("If", ["many"], ["branched"], {
        then_branch: branch("then", "ReduceSum"),
        else_branch: branch("else", "ReduceMax"),
      }),
      node("Loop", ["sequence", "", "branched"], ["looped"], { body }),
      ...(data
        ? [
            node("Greater", ["present", "none"], ["above"]),
            node("Reshape", ["above", "minus"], ["flags"]),
            node("Compress", ["present", "flags"], ["chosen"]),
          ]
        : []),
    ],
  });
}
