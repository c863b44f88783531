// What is not understood is refused, with the input and the node where the trail ended; and what is refused is never half done.
import { describe, expect, test } from "vitest";
import { buildModel, node, value, initializer } from "../../src/onnx/build.js";
import type { Model, ModelNode } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { rewrite } from "../../packages/rewrite/rewrite.js";
import { bytesOf } from "./exports.js";
import { type Style, styledDecoder } from "./styles.js";

const refusal = (model: Model, options = {}): string => {
  try {
    rewrite(model, options);
  } catch (error) {
    return String((error as Error).message);
  }
  throw new Error("the model was rewritten");
};

/** A styled decoder with its nodes changed. */
function changed(style: Style, change: (nodes: readonly ModelNode[]) => readonly ModelNode[]): Model {
  const model = styledDecoder(style);
  return { ...model, graph: { ...model.graph, nodes: change(model.graph.nodes) } };
}

const named = (nodes: readonly ModelNode[], opType: string): ModelNode => nodes.find((one) => one.opType === opType)!;

describe("refused, with a reason", () => {
  test("a model without a cache", () => {
    const model = buildModel({
      opset: 20,
      inputs: [value("x", "float32", ["batch", 3, 4])],
      outputs: [value("y", "float32", ["batch", 3, 4])],
      nodes: [node("Relu", ["x"], ["y"])],
    });
    expect(refusal(model)).toMatch(/has no cache/);
  });

  test("a model that is rewritten already", () => {
    const { model } = rewrite(styledDecoder());
    expect(refusal(model)).toMatch(/every cache is written in place already, by TensorScatter "Concat_\d+"/);
  });

  test("an opset that is too old", () => {
    expect(refusal({ ...styledDecoder(), opsets: new Map([["", 12]]) })).toMatch(/opset 12; 13 is the oldest/);
  });

  test("a cache that keeps its last rows only", () => {
    const model = changed({}, (nodes) =>
      nodes.flatMap((one) =>
        one.opType === "Concat" && one.outputs[0] === "present.0.key"
          ? [
              { ...one, outputs: ["all_rows"] },
              node("Slice", ["all_rows", "last", "end", "axis"], ["present.0.key"], {}, { name: "forget" }),
            ]
          : [one],
      ),
    );
    const more = [
      initializer("last", "int64", [-7n], [1]),
      initializer("end", "int64", [2n ** 62n], [1]),
      initializer("axis", "int64", [2n], [1]),
    ];
    const whole = { ...model, graph: { ...model.graph, initializers: [...model.graph.initializers, ...more] } };
    expect(refusal(whole)).toMatch(/cache "past.0.key" cannot be rewritten: .*Slice "forget" makes "present.0.key"/);
  });

  test("keys that are changed behind the cache", () => {
    const model = changed({ repeat: "none", attend: "node", opset: 24 }, (nodes) =>
      nodes.flatMap((one) =>
        one.opType === "Attention"
          ? [
              node("Tanh", [one.inputs[1]], [`${one.name}_squashed`], {}, { name: `squash_${one.name}` }),
              { ...one, inputs: one.inputs.map((name, at) => (at === 1 ? `${one.name}_squashed` : name)) },
            ]
          : [one],
      ),
    );
    expect(refusal(model)).toMatch(
      /^cache "past\.0\.key" cannot be rewritten: Attention "Attention_\d+": its keys and its values do not both come from caches; 3 more caches resist$/,
    );
  });

  test("heads that are repeated in turn, not in neighbours", () => {
    const model = changed({ repeat: "tile" }, (nodes) =>
      nodes.map((one) =>
        one.opType === "Unsqueeze" && nodes.some((tile) => tile.opType === "Tile" && tile.inputs[0] === one.outputs[0])
          ? { ...one, inputs: [one.inputs[0], "first_axis"] }
          : one,
      ),
    );
    const whole = {
      ...model,
      graph: {
        ...model.graph,
        initializers: [...model.graph.initializers, initializer("first_axis", "int64", [1n], [1])],
      },
    };
    const tiled = whole.graph.initializers.map((tensor) =>
      tensor.dims.length === 1 && tensor.dims[0] === 5
        ? initializer(tensor.name, "int64", [1n, 2n, 1n, 1n, 1n], [5])
        : tensor,
    );
    expect(refusal({ ...whole, graph: { ...whole.graph, initializers: tiled } })).toMatch(
      /heads are shared in another way/,
    );
  });

  test("something else that reads the cache", () => {
    const model = changed({}, (nodes) => [
      ...nodes.map((one) => (one.outputs[0] === "logits" ? { ...one, outputs: ["bare"] } : one)),
      node("ReduceMean", ["present.1.value"], ["mean"], { keepdims: 0 }, { name: "mean_of_cache" }),
      node("Add", ["bare", "mean"], ["logits"], {}, { name: "with_mean" }),
    ]);
    expect(refusal(model)).toMatch(
      /^cache "past\.0\.key" cannot be rewritten: Concat "Concat_\d+" makes "present\.1\.value", which depends on how many rows the caches hold$/,
    );
  });

  test("a length that is computed with", () => {
    const model = changed({}, (nodes) => [
      ...nodes.map((one) => (one.outputs[0] === "logits" ? { ...one, outputs: ["bare"] } : one)),
      node("Shape", ["past.0.key"], ["dims"], {}, { name: "dims_of_cache" }),
      node("Cast", ["dims"], ["numbers"], { to: 1 }, { name: "as_numbers" }),
      node("ReduceMax", ["numbers"], ["most"], { keepdims: 0 }, { name: "most_rows" }),
      node("Mul", ["bare", "most"], ["logits"], {}, { name: "scaled_by_length" }),
    ]);
    expect(refusal(model)).toMatch(/depends on how many rows the caches hold/);
  });

  test("a scatter that adds", () => {
    const model = changed({ growth: "scatter-elements", positions: "row" }, (nodes) =>
      nodes.map((one) =>
        one.opType === "ScatterElements"
          ? node(one.opType, one.inputs, one.outputs, { axis: 2, reduction: "add" }, { name: one.name })
          : one,
      ),
    );
    expect(refusal(model)).toMatch(/ScatterElements "ScatterElements_\d+" combines rows/);
  });

  test("a cache inside a body", () => {
    const inner = styledDecoder();
    const isPast = ({ name }: { readonly name: string }): boolean => name.startsWith("past");
    const isPresent = ({ name }: { readonly name: string }): boolean => name.startsWith("present");
    const [pasts, given] = [inner.graph.inputs.filter(isPast), inner.graph.inputs.filter((one) => !isPast(one))];
    const [presents, others] = [
      inner.graph.outputs.filter(isPresent),
      inner.graph.outputs.filter((one) => !isPresent(one)),
    ];
    const outer = <T extends { readonly name: string }>(one: T): T => ({ ...one, name: `outer_${one.name}` });
    // The caches are carried from turn to turn; the rest is stacked.
    const model = buildModel({
      opset: 18,
      inputs: [...given, ...pasts.map(outer), value("use_cache", "bool", [])],
      outputs: [...presents.map(outer), ...others.map(({ name }) => value(`outer_${name}`))],
      initializers: [...inner.graph.initializers, initializer("one", "int64", [1n], [])],
      nodes: [
        node(
          "Loop",
          ["one", "use_cache", ...pasts.map(({ name }) => `outer_${name}`)],
          [...presents, ...others].map(({ name }) => `outer_${name}`),
          {
            body: {
              ...inner.graph,
              name: "body",
              initializers: [],
              inputs: [value("i", "int64", []), value("c", "bool", []), ...pasts],
              outputs: [value("c2", "bool", []), ...presents, ...others],
              nodes: [...inner.graph.nodes, node("Identity", ["c"], ["c2"])],
            },
          },
          { name: "around" },
        ),
      ],
    });
    expect(refusal(model)).toMatch(
      /^cache "outer_past\.0\.key" cannot be rewritten: Loop "around" reads it in a body, and bodies are not looked into; 3 more caches resist$/,
    );
  });

  test("no cache at all", () => {
    const plain = buildModel({
      opset: 20,
      inputs: [value("x", "float32", [2])],
      outputs: [value("y", "float32", [2])],
      nodes: [node("Neg", ["x"], ["y"])],
    });
    expect(refusal(plain)).toBe(
      "the model has no cache: no input reaches an output through Concat, a scatter or an attention operator that adds rows to it",
    );
  });

  test("an operator with more than Attention has", () => {
    const style: Style = { growth: "gqa", mask: "none" };
    const model = changed(style, (nodes) =>
      nodes.map((one) =>
        one.opType === "GroupQueryAttention"
          ? {
              ...one,
              outputs: [...one.outputs, `${one.outputs[0]} scores`],
              attributes: new Map([...one.attributes, ...node("x", [], [], { qk_output: 1 }).attributes]),
            }
          : one,
      ),
    );
    expect(refusal(model)).toMatch(/GroupQueryAttention "GroupQueryAttention_\d+": its scores are asked for/);
  });

  test("new rows in front of the old ones", () => {
    const model = changed({}, (nodes) =>
      nodes.map((one) =>
        one.opType === "Concat" && one.outputs[0].startsWith("present")
          ? { ...one, inputs: one.inputs.toReversed() }
          : one,
      ),
    );
    expect(refusal(model)).toMatch(/cache "past\.0\.key" cannot be rewritten: .*Concat "Concat_\d+" makes "present/);
  });

  test("a sink beside the scores", () => {
    const model = changed({}, (nodes) =>
      nodes.flatMap((one) => {
        if (one.opType !== "Softmax") return [one];
        const [scores, weights] = [one.inputs[0], one.outputs[0]];
        return [
          node("ReduceMean", [scores, "last_axis"], [`${weights}_sink`], { keepdims: 1 }, { name: `sink_${weights}` }),
          node("Concat", [scores, `${weights}_sink`], [`${weights}_wide`], { axis: 3 }, { name: `join_${weights}` }),
          { ...one, inputs: [`${weights}_wide`], outputs: [`${weights}_all`] },
          node("Slice", [`${weights}_all`, "zero", "last_axis", "axis_3"], [weights], {}, { name: `cut_${weights}` }),
        ];
      }),
    );
    const more = [
      initializer("last_axis", "int64", [-1n], [1]),
      initializer("zero", "int64", [0n], [1]),
      initializer("axis_3", "int64", [3n], [1]),
    ];
    const whole = { ...model, graph: { ...model.graph, initializers: [...model.graph.initializers, ...more] } };
    expect(refusal(whole)).toMatch(
      /^cache "past\.0\.key" cannot be rewritten: Softmax "Softmax_\d+": the scores are chosen between two products; 3 more caches resist$/,
    );
  });

  test("keys that are turned behind the cache", () => {
    const model = changed({}, (nodes) =>
      nodes.flatMap((one) =>
        one.opType === "Concat" && one.outputs[0].endsWith(".key")
          ? [one, node("Cos", [one.outputs[0]], [`${one.outputs[0]}_turned`], {}, { name: `turn_${one.outputs[0]}` })]
          : [
              {
                ...one,
                inputs: one.inputs.map((name) => (/^present\.\d+\.key$/.test(name) ? `${name}_turned` : name)),
              },
            ],
      ),
    );
    expect(refusal(model)).toMatch(
      /cache "past\.0\.key" cannot be rewritten: Softmax "Softmax_\d+": the keys "v\d+" are computed from the cache/,
    );
  });

  test("a query that sees nothing", () => {
    const model = changed({ mask: "triu", positions: "row" }, (nodes) => {
      const added = named(nodes, "Trilu").inputs[1];
      return nodes.map((one) => (one.outputs[0] === added ? { ...one, opType: "Mul" } : one));
    });
    expect(refusal(model)).toMatch(/its mask may hide every key from a query/);
  });

  test("a cache whose first axis is the sequence", () => {
    const model = changed({ layout: "BSNH" }, (nodes) =>
      nodes.flatMap((one) => {
        if (one.opType !== "Concat" || !one.outputs[0].startsWith("present")) return [one];
        const [rows, joined] = [`${one.outputs[0]}_rows`, `${one.outputs[0]}_back`];
        const turn = (from: string, to: string): ModelNode => node("Transpose", [from], [to], { perm: [1, 0, 2, 3] });
        return [
          turn(one.inputs[1], rows),
          node("Concat", [one.inputs[0], rows], one.outputs, { axis: 0 }, { name: one.name }),
          turn(one.outputs[0], joined),
        ];
      }),
    );
    const nodes = model.graph.nodes.map((one) =>
      one.outputs[0]?.endsWith("_back")
        ? one
        : {
            ...one,
            inputs: one.inputs.map((name) =>
              name.startsWith("present") && !name.endsWith("_rows") ? `${name}_back` : name,
            ),
          },
    );
    const inputs = model.graph.inputs.map((one) =>
      one.name.startsWith("past") && one.type?.kind === "tensor"
        ? { ...one, type: { ...one.type, shape: ["past", "batch", ...one.type.shape!.slice(2)] } }
        : one,
    );
    expect(refusal({ ...model, graph: { ...model.graph, nodes, inputs } })).toMatch(/cannot be rewritten: /);
  });

  test("keys and values stacked in front of the batch", () => {
    expect(refusal(styledDecoder({ growth: "stacked" }))).toMatch(
      /cache "past_0" cannot be rewritten: Gather "Gather_\d+" reads it, .*: Concat "Concat_\d+" makes "present_0"/,
    );
  });

  test("rows of a static cache that are seen before they are written", () => {
    expect(refusal(styledDecoder({ growth: "scatter-elements", positions: "row", mask: "none" }))).toMatch(
      /its mask does not hide the rows of the cache that are not written yet/,
    );
  });

  test("a mask of one column, which opset 24 reads in another way", () => {
    const model = changed({ attend: "node", opset: 23, mask: "none" }, (nodes) =>
      nodes.map((one) =>
        one.opType === "Attention" ? { ...one, inputs: [...one.inputs.slice(0, 3), "column"] } : one,
      ),
    );
    const more = [initializer("column", "float32", [0], [1, 1, 1, 1])];
    const whole = { ...model, graph: { ...model.graph, initializers: [...model.graph.initializers, ...more] } };
    expect(refusal(whole)).toMatch(/Attention "Attention_\d+": its mask .* columns/);
  });

  test("a name that is taken", () => {
    const model = changed({}, (nodes) => {
      const softmax = named(nodes, "Softmax");
      return nodes.map((one) =>
        one === softmax
          ? { ...one, outputs: ["write_indices"] }
          : { ...one, inputs: one.inputs.map((name) => (name === softmax.outputs[0] ? "write_indices" : name)) },
      );
    });
    expect(refusal(model)).toMatch(/already has a value "write_indices"/);
  });

  test("capacities that are none, or smaller than fixed shapes", () => {
    expect(refusal(styledDecoder(), { capacity: 0 })).toMatch(/capacity must be a whole number above 0, got 0/);
    const model = styledDecoder({ growth: "scatter-elements", positions: "row" });
    expect(refusal(model, { capacity: 31 })).toMatch(/capacity 31 is smaller than the 32 rows of cache "past.0.key"/);
    expect(rewrite(model, { capacity: 33 }).report.capacity).toBe(33);
  });
});

describe("what stays", () => {
  test("nodes and weights that nothing touches keep their bytes", () => {
    const before = readModel(bytesOf("llama_op20_q4"));
    const after = readModel(writeModel(rewrite(before).model));
    const kept = new Map(after.graph.nodes.map((one) => [one.name, one]));
    let same = 0;
    for (const one of before.graph.nodes) {
      const other = kept.get(one.name);
      if (other === undefined || other.opType !== one.opType) continue;
      expect(other).toMatchObject({ inputs: one.inputs, outputs: one.outputs });
      same++;
    }
    expect(same).toBeGreaterThan(100);
    const weights = new Map(after.graph.initializers.map((tensor) => [tensor.name, tensor]));
    for (const tensor of before.graph.initializers)
      if (tensor.dims.length === 2) expect(weights.get(tensor.name)?.data).toEqual(tensor.data);
    expect(after.metadata.get("insitu.rewrite")).toMatch(/4 caches written by TensorScatter/);
  });

  test("the model that is rewritten is not changed", () => {
    const bytes = bytesOf("gemma3_op18_sdpa");
    const model = readModel(bytes);
    rewrite(model);
    expect(Buffer.compare(writeModel(model), bytes)).toBe(0);
  });

  test("caches, and everything that generation code feeds, keep their names", () => {
    const model = readModel(bytesOf("mistral_op24"));
    const { model: after, report } = rewrite(model);
    const names = (one: Model): string[] => one.graph.inputs.map(({ name }) => name);
    expect(names(after)).toEqual([
      ...names(model).filter((name) => name !== "attention_mask"),
      "write_indices",
      "nonpad_kv_seqlen",
    ]);
    expect(after.graph.outputs.map(({ name }) => name)).toEqual(model.graph.outputs.map(({ name }) => name));
    expect(report.inputs).toEqual({ added: ["write_indices", "nonpad_kv_seqlen"], removed: ["attention_mask"] });
    for (const { type } of after.graph.inputs.filter(({ name }) => name.startsWith("past")))
      expect(type).toMatchObject({ shape: ["s10", 2, "capacity", 16] });
  });
});
