// The graphs of docs/in-place.md: each one with the verdict that the page tells. scripts/draw-docs.mjs draws them, the tests run them.
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelValue } from "../../src/onnx/model.js";

/** A graph that the page shows. */
export interface Example {
  /** The picture's file name, without its ending. */
  readonly name: string;
  /** What the picture shows, for those who cannot see it. */
  readonly title: string;
  readonly model: Model;
  /** The verdict of each update, by node. */
  readonly verdicts: Readonly<Record<string, { readonly inPlace: boolean; readonly reason: string }>>;
}

const width = 64;
const cache = (name: string): ModelValue => value(name, "float32", ["batch", "capacity", width]);
const row = (name: string): ModelValue => value(name, "float32", ["batch", "tokens", width]);
const at = (name = "write_indices"): ModelValue => value(name, "int64", ["batch"]);
const free = "nothing else reads the old value";
const scatter = (inputs: string[], output: string, name: string): ReturnType<typeof node> =>
  node("TensorScatter", inputs, [output], { axis: 1 }, { name });

const model = (name: string, parts: Omit<Parameters<typeof buildModel>[0], "opset" | "name">): Model =>
  buildModel({ opset: 24, name, ...parts });

const inPlace: Example = {
  name: "in-place",
  title: "Keys and values, each written in place, then read by Attention",
  model: model("in_place", {
    inputs: [
      row("query"),
      row("key"),
      row("value"),
      at(),
      at("nonpad_kv_seqlen"),
      cache("past_key"),
      cache("past_value"),
    ],
    outputs: [row("attended"), cache("present_key"), cache("present_value")],
    nodes: [
      scatter(["past_key", "key", "write_indices"], "present_key", "append_k"),
      scatter(["past_value", "value", "write_indices"], "present_value", "append_v"),
      node(
        "Attention",
        ["query", "present_key", "present_value", undefined, undefined, undefined, "nonpad_kv_seqlen"],
        ["attended"],
        { is_causal: 1, q_num_heads: 4, kv_num_heads: 4 },
        { name: "attend" },
      ),
    ],
  }),
  verdicts: { append_k: { inPlace: true, reason: free }, append_v: { inPlace: true, reason: free } },
};

const heads = (name: string, rows: string): ModelValue => value(name, "float32", ["batch", 4, rows, 16]);

const grows: Example = {
  name: "grows",
  title: "Attention's own past and present: longer views of one reserve",
  model: model("grows", {
    inputs: [
      heads("query", "tokens"),
      heads("key", "tokens"),
      heads("value", "tokens"),
      heads("past_key", "past"),
      heads("past_value", "past"),
    ],
    outputs: [heads("attended", "tokens"), heads("present_key", "total"), heads("present_value", "total")],
    nodes: [
      node(
        "Attention",
        ["query", "key", "value", undefined, "past_key", "past_value"],
        ["attended", "present_key", "present_value"],
        { is_causal: 1 },
        { name: "attend" },
      ),
    ],
  }),
  verdicts: { attend: { inPlace: true, reason: free } },
};

const readerFirst: Example = {
  name: "reader-first",
  title: "A reader of the old cache that can come before the write",
  model: model("reader_first", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), value("before", "float32", ["batch", 1, 1])],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceL2", ["past", "axes"], ["before"], {}, { name: "size_before" }),
    ],
    initializers: [initializer("axes", "int64", [1n, 2n], [2])],
  }),
  verdicts: { append: { inPlace: true, reason: "its other reader comes first" } },
};

const laterReader: Example = {
  name: "later-reader",
  title: "A reader that needs the old cache and the new one",
  model: model("later_reader", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), cache("change")],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("Sub", ["present", "past"], ["change"], {}, { name: "difference" }),
    ],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'Sub "difference" reads the old value and needs this node\'s result, so it cannot come first',
    },
  },
};

const smallResults: Example = {
  name: "small-results",
  title: "Two readers of which only the small results meet",
  model: model("small_results", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), value("change", "float32", ["batch", 1, 1])],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceSum", ["past", "axes"], ["old_sum"], {}, { name: "sum_before" }),
      node("ReduceSum", ["present", "axes"], ["new_sum"], {}, { name: "sum_after" }),
      node("Sub", ["new_sum", "old_sum"], ["change"], {}, { name: "difference" }),
    ],
    initializers: [initializer("axes", "int64", [1n, 2n], [2])],
  }),
  verdicts: { append: { inPlace: true, reason: "its other reader comes first" } },
};

const throughView: Example = {
  name: "through-view",
  title: "The same reader behind a Reshape",
  model: model("through_view", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), value("change", "float32", ["batch", "all"])],
    nodes: [
      node("Reshape", ["past", "flat"], ["past_flat"], {}, { name: "flatten_past" }),
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("Reshape", ["present", "flat"], ["present_flat"], {}, { name: "flatten_present" }),
      node("Sub", ["present_flat", "past_flat"], ["change"], {}, { name: "difference" }),
    ],
    initializers: [initializer("flat", "int64", [0n, -1n], [2])],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'Sub "difference" reads the old value and needs this node\'s result, so it cannot come first',
    },
  },
};

const oldOutput: Example = {
  name: "old-output",
  title: "A graph output that is the old cache",
  model: model("old_output", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), cache("before")],
    nodes: [
      node("Identity", ["past"], ["before"], {}, { name: "keep" }),
      scatter(["past", "key", "write_indices"], "present", "append"),
    ],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'the graph output "before" is a view of the old value, and is read when the run ends',
    },
  },
};

const someRows: Example = {
  name: "some-rows",
  title: "A graph output that is a copy of a few old rows",
  model: model("some_rows", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), value("first_row", "float32", ["batch", 1, width])],
    nodes: [
      node("Slice", ["past", "zero", "one", "one"], ["first_row"], {}, { name: "take" }),
      scatter(["past", "key", "write_indices"], "present", "append"),
    ],
    initializers: [initializer("zero", "int64", [0n], [1]), initializer("one", "int64", [1n], [1])],
  }),
  verdicts: { append: { inPlace: true, reason: "its other reader comes first" } },
};

const twoWriters: Example = {
  name: "two-writers",
  title: "Two nodes that both continue the same cache",
  model: model("two_writers", {
    inputs: [row("key"), row("draft_key"), at(), cache("past")],
    outputs: [cache("present"), value("draft_size", "float32", ["batch", 1, 1])],
    nodes: [
      scatter(["past", "draft_key", "write_indices"], "draft", "append_draft"),
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceL2", ["draft", "axes"], ["draft_size"], {}, { name: "judge" }),
    ],
    initializers: [initializer("axes", "int64", [1n, 2n], [2])],
  }),
  verdicts: {
    append: { inPlace: true, reason: "its other reader comes first" },
    append_draft: {
      inPlace: false,
      reason: 'TensorScatter "append" already writes "past" in place, and one buffer holds one result',
    },
  },
};

const captured: Example = {
  name: "captured",
  title: "A branch that captures the old cache and is chosen by the new one",
  model: model("captured", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present"), cache("chosen")],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceMax", ["present"], ["largest"], { keepdims: 0 }, { name: "largest" }),
      node("Greater", ["largest", "limit"], ["too_large"], {}, { name: "too_large" }),
      node(
        "If",
        ["too_large"],
        ["chosen"],
        {
          then_branch: graph({
            name: "go_back",
            nodes: [node("Neg", ["past"], ["negated"], {}, { name: "negate" })],
            outputs: [cache("negated")],
          }),
          else_branch: graph({
            name: "go_on",
            nodes: [node("Abs", ["present"], ["absolute"], {}, { name: "absolute" })],
            outputs: [cache("absolute")],
          }),
        },
        { name: "choose" },
      ),
    ],
    initializers: [initializer("limit", "float32", [0.5], [])],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'If "choose" reads the old value and needs this node\'s result, so it cannot come first',
    },
  },
};

const constant: Example = {
  name: "initializer",
  title: "A cache that is an initializer",
  model: model("initializer", {
    inputs: [value("key", "float32", [1, "tokens", width]), value("write_indices", "int64", [1])],
    outputs: [value("present", "float32", [1, 8, width])],
    nodes: [scatter(["empty_cache", "key", "write_indices"], "present", "append")],
    initializers: [initializer("empty_cache", "float32", new Float32Array(8 * width), [1, 8, width])],
  }),
  verdicts: {
    append: { inPlace: false, reason: '"empty_cache" is an initializer, and constants are never written' },
  },
};

const fed: Example = {
  name: "fed",
  title: "A cache whose present is no output, so that no state can hold it",
  model: model("fed", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [value("size", "float32", ["batch", 1, 1])],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceL2", ["present", "axes"], ["size"], {}, { name: "measure" }),
    ],
    initializers: [initializer("axes", "int64", [1n, 2n], [2])],
  }),
  verdicts: { append: { inPlace: false, reason: '"past" is fed by the caller, and feeds are never written' } },
};

const concat: Example = {
  name: "concat",
  title: "A cache that Concat makes anew for each token",
  model: model("concat", {
    inputs: [row("key"), value("past", "float32", ["batch", "past_length", width])],
    outputs: [value("present", "float32", ["batch", "total_length", width]), value("size", "float32", ["batch", 1, 1])],
    nodes: [
      node("Concat", ["past", "key"], ["present"], { axis: 1 }, { name: "append" }),
      node("ReduceL2", ["present", "axes"], ["size"], {}, { name: "measure" }),
    ],
    initializers: [initializer("axes", "int64", [1n, 2n], [2])],
  }),
  verdicts: { append: { inPlace: false, reason: "Concat makes a new, longer tensor for each token" } },
};

const transposed: Example = {
  name: "transposed",
  title: "A cache that is written in another layout",
  model: model("transposed", {
    inputs: [
      value("rows", "float32", ["tokens", "batch", width]),
      value("positions", "int64", ["tokens", 1]),
      cache("past"),
    ],
    outputs: [cache("present")],
    nodes: [
      node("Transpose", ["past"], ["rows_first"], { perm: [1, 0, 2] }, { name: "to_rows" }),
      node("ScatterND", ["rows_first", "positions", "rows"], ["written"], {}, { name: "append" }),
      node("Transpose", ["written"], ["present"], { perm: [1, 0, 2] }, { name: "from_rows" }),
    ],
  }),
  verdicts: {
    append: { inPlace: false, reason: 'Transpose "to_rows" copies "past" into another layout for each token' },
  },
};

const inBody: Example = {
  name: "in-body",
  title: "An update inside the body of a Loop",
  model: model("in_body", {
    inputs: [row("key"), at(), cache("past")],
    outputs: [cache("present")],
    nodes: [
      node(
        "Loop",
        ["times", undefined, "past"],
        ["present"],
        {
          body: graph({
            name: "append_again",
            inputs: [value("step", "int64", []), value("go", "bool", []), cache("carried")],
            outputs: [value("still", "bool", []), cache("appended")],
            nodes: [
              node("Identity", ["go"], ["still"], {}, { name: "still" }),
              scatter(["carried", "key", "write_indices"], "appended", "append"),
            ],
          }),
        },
        { name: "each_token" },
      ),
    ],
    initializers: [initializer("times", "int64", [2n], [])],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'inside a body of Loop "each_token" (body), and bodies write nothing in place',
    },
  },
};

const boundTwice: Example = {
  name: "bound-twice",
  title: "A sum and a difference that still read the old cache",
  model: model("bound_twice", {
    inputs: [
      value("key", "float32", [1, 1, 2]),
      value("write_indices", "int64", [1]),
      value("past", "float32", [1, 4, 2]),
    ],
    outputs: [
      value("present", "float32", [1, 4, 2]),
      value("sum", "float32", [1, 1, 1]),
      value("change", "float32", [1, 4, 2]),
    ],
    nodes: [
      scatter(["past", "key", "write_indices"], "present", "append"),
      node("ReduceSum", ["past"], ["sum"], {}, { name: "total" }),
      node("Sub", ["present", "past"], ["change"], {}, { name: "difference" }),
    ],
  }),
  verdicts: {
    append: {
      inPlace: false,
      reason: 'Sub "difference" reads the old value and needs this node\'s result, so it cannot come first',
    },
  },
};

/** Every graph of the page, in its order. */
export const examples: readonly Example[] = [
  inPlace,
  grows,
  readerFirst,
  laterReader,
  smallResults,
  throughView,
  oldOutput,
  someRows,
  twoWriters,
  captured,
  constant,
  fed,
  concat,
  transposed,
  inBody,
  boundTwice,
];

/** The nodes of an example as the page lists them, one a line: `present = TensorScatter(past, key, write_indices)`. */
export function listingOf({ model: { graph: main } }: Example): string[] {
  return main.nodes.map(({ opType, inputs, outputs, attributes }) => {
    const bodies = [...attributes.values()].flatMap((attribute) =>
      attribute.kind === "graph"
        ? [
            `${attribute.name}: ${attribute.value.nodes.map((inner) => `${inner.opType}(${inner.inputs.join(", ")})`).join("; ")}`,
          ]
        : [],
    );
    const operands = [...inputs.map((name) => name || "–"), ...bodies];
    return `${outputs.join(", ")} = ${opType}(${operands.join(", ")})`;
  });
}
