// Small decoders made by code, in the forms that exporters and runtimes give them: layouts, ways to grow, masks, repeated heads, positions.
import { initializer, node, type AttributeInput, buildModel, float, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor, ModelValue } from "../../src/onnx/model.js";
import { seededRandom } from "../../src/graph/call.js";
import { Tensor } from "../../src/tensor/tensor.js";

export interface Style {
  readonly opset?: number;
  readonly layout?: "BNSH" | "BSNH" | "BSE" | "BNHS";
  readonly growth?:
    | "concat"
    | "scatter-rows"
    | "scatter-nd"
    | "scatter-elements"
    | "attention"
    | "attention-packed"
    | "gqa"
    | "gqa-packed"
    | "mha";
  /** How rows of a static cache are numbered. */
  readonly counter?: "cache_position" | "arange" | "start";
  readonly attend?:
    | "written"
    | "node"
    | "node-packed"
    | "five"
    | "merged"
    | "guarded"
    | "capped"
    | "scaled-queries"
    | "div";
  readonly mask?:
    | "causal"
    | "triu"
    | "subtract"
    | "window"
    | "chunk"
    | "alibi"
    | "input"
    | "none"
    | "cumulative"
    | "padding-only"
    | "where-scores"
    | "tril-gather";
  readonly repeat?: "expand" | "tile" | "concat" | "none";
  readonly positions?: "input" | "list" | "row" | "cumsum" | "none";
  readonly tokens?: "sequence" | 1;
  readonly batch?: "batch" | 1;
  readonly window?: number;
  readonly rotary?: boolean;
}

const sizes = {
  vocabulary: 24,
  embedding: 16,
  heads: 4,
  kvHeads: 2,
  head: 4,
  positions: 40,
  layers: 2,
  static: 32,
} as const;

/** Nodes under way. */
class Net {
  readonly nodes: ModelNode[] = [];
  readonly weights: ModelTensor[] = [];
  readonly inputs: ModelValue[] = [];
  readonly outputs: ModelValue[] = [];
  readonly #random = seededRandom(5);
  #count = 0;

  op(
    type: string,
    inputs: readonly (string | undefined)[],
    attributes: Record<string, AttributeInput> = {},
    more: { domain?: string; output?: string; outputs?: readonly (string | undefined)[] } = {},
  ): string {
    const output = more.output ?? `v${this.#count++}`;
    const outputs = more.outputs ?? [output];
    this.nodes.push(
      node(type, inputs, outputs, attributes, { name: `${type}_${this.#count++}`, domain: more.domain ?? "" }),
    );
    return outputs[0]!;
  }

  weight(dims: readonly number[], scale = 0.4): string {
    const name = `w${this.#count++}`;
    const size = dims.reduce((product, dim) => product * dim, 1);
    this.weights.push(
      initializer(
        name,
        new Tensor(
          "float32",
          Float32Array.from({ length: size }, () => (this.#random() - 0.5) * 2 * scale),
          dims,
        ),
      ),
    );
    return name;
  }

  ints(list: readonly number[], dims: readonly number[] = [list.length]): string {
    const name = `i${this.#count++}`;
    this.weights.push(initializer(name, new Tensor("int64", BigInt64Array.from(list, BigInt), dims)));
    return name;
  }

  float(number: number): string {
    const name = `f${this.#count++}`;
    this.weights.push(initializer(name, new Tensor("float32", Float32Array.of(number), [])));
    return name;
  }

  size(of: string, axis: number): string {
    return this.op("Gather", [this.op("Shape", [of]), this.ints([axis])], { axis: 0 });
  }

  scalarSize(of: string, axis: number): string {
    return this.op("Squeeze", [this.size(of, axis)]);
  }

  range(start: string, end: string): string {
    return this.op("Range", [start, end, this.ints([1], [])]);
  }

  concat(list: readonly string[], axis: number): string {
    return this.op("Concat", list, { axis });
  }

  unsqueeze(of: string, ...axes: number[]): string {
    return this.op("Unsqueeze", [of, this.ints(axes)]);
  }

  reshape(of: string, ...shape: number[]): string {
    return this.op("Reshape", [of, this.ints(shape)]);
  }

  transpose(of: string, ...perm: number[]): string {
    return this.op("Transpose", [of], { perm });
  }
}

/** A decoder in a style. */
export function styledDecoder(style: Style = {}): Model {
  const { opset = 18, growth = "concat", positions = "input", tokens = "sequence", batch = "batch" } = style;
  const net = new Net();
  const { embedding, vocabulary, heads, kvHeads, head, layers } = sizes;
  net.inputs.push(value("input_ids", "int64", [batch, tokens]));
  const usesMask =
    ["causal", "window", "subtract", "cumulative", "padding-only", "alibi", "tril-gather"].includes(
      style.mask ?? "causal",
    ) && isGrowing(style);
  if (usesMask) net.inputs.push(value("attention_mask", "int64", [batch, "total"]));
  if (positions === "input") net.inputs.push(value("position_ids", "int64", [batch, tokens]));
  if (!isGrowing(style) && style.counter !== "arange")
    net.inputs.push(
      style.counter === "start" ? value("start_pos", "int64", []) : value("cache_position", "int64", [tokens]),
    );
  if (growth === "gqa" || growth === "gqa-packed")
    net.inputs.push(value("seqlens_k", "int32", [batch]), value("total_sequence_length", "int32", []));
  const pasts = Array.from({ length: layers }, (_, layer) => [`past.${layer}.key`, `past.${layer}.value`]);
  const count = growth === "mha" ? heads : kvHeads;
  pasts.forEach(([key, own]) => {
    net.inputs.push(
      value(key, "float32", cacheShape(style, count, true, "past")),
      value(own, "float32", cacheShape(style, count, false, "past")),
    );
  });
  const around: Around = {
    net,
    style,
    length: net.scalarSize("input_ids", 1),
    before: rowsBefore(net, style, pasts[0][0]),
    usesMask,
  };
  let hidden = net.op("Gather", [net.weight([vocabulary, embedding]), "input_ids"], { axis: 0 });
  const place = positionsOf(around);
  if (place !== undefined && style.rotary !== true)
    hidden = net.op("Add", [hidden, net.op("Gather", [net.weight([sizes.positions, embedding]), place], { axis: 0 })]);
  const mask = maskOf(around);
  for (const [layer, caches] of pasts.entries()) {
    const q = net.op("MatMul", [hidden, net.weight([embedding, heads * head])]);
    const k = net.op("MatMul", [hidden, net.weight([embedding, count * head])]);
    const v = net.op("MatMul", [hidden, net.weight([embedding, count * head])]);
    const presents = [`present.${layer}.key`, `present.${layer}.value`];
    const context = attention(around, { q, k, v, caches, presents, mask, place, count });
    hidden = net.op("Add", [hidden, net.op("MatMul", [context, net.weight([heads * head, embedding])])]);
    presents.forEach((name, at) =>
      net.outputs.push(value(name, "float32", cacheShape(style, count, at === 0, "total"))),
    );
  }
  net.op("MatMul", [hidden, net.weight([embedding, vocabulary])], {}, { output: "logits" });
  net.outputs.unshift(value("logits", "float32", [batch, tokens, vocabulary]));
  const microsoft = net.nodes.some(({ domain }) => domain === "com.microsoft");
  return buildModel({
    opset: microsoft ? { "": opset, "com.microsoft": 1 } : opset,
    nodes: net.nodes,
    inputs: net.inputs,
    outputs: net.outputs,
    initializers: net.weights,
  });
}

interface Around {
  readonly net: Net;
  readonly style: Style;
  /** Scalars: new tokens, rows before them. */
  readonly length: string;
  readonly before: string;
  readonly usesMask: boolean;
}

const isGrowing = ({ growth = "concat" }: Style): boolean => !growth.startsWith("scatter");

function cacheShape(style: Style, count: number, isKey: boolean, rows: string): (string | number)[] {
  const { batch = "batch", layout = "BNSH" } = style;
  const length = isGrowing(style) ? rows : sizes.static;
  if (layout === "BSE") return [batch, length, count * sizes.head];
  if (layout === "BSNH") return [batch, length, count, sizes.head];
  return layout === "BNHS" && isKey ? [batch, count, sizes.head, length] : [batch, count, length, sizes.head];
}

const rowsAxis = ({ layout = "BNSH" }: Style, isKey: boolean): number =>
  layout === "BNSH" || (layout === "BNHS" && !isKey) ? 2 : layout === "BNHS" ? 3 : 1;

function rowsBefore(net: Net, style: Style, past: string): string {
  if (isGrowing(style)) return net.scalarSize(past, rowsAxis(style, true));
  if (style.counter === "start") return "start_pos";
  return style.counter === "arange"
    ? net.ints([0], [])
    : net.op("Gather", ["cache_position", net.ints([0], [])], { axis: 0 });
}

/** Rows of the new tokens, [sequence]. */
const rowsOf = ({ net, style, length, before }: Around): string =>
  !isGrowing(style) && (style.counter ?? "cache_position") === "cache_position"
    ? "cache_position"
    : net.op("Add", [net.range(net.ints([0], []), length), before]);

function positionsOf(around: Around): string | undefined {
  const { net, style, length, before } = around;
  const positions = style.positions ?? "input";
  switch (positions) {
    case "input":
      return "position_ids";
    case "list":
      return rowsOf(around);
    case "row":
      return net.unsqueeze(rowsOf(around), 0);
    case "cumsum": {
      const counted = net.op("Sub", [net.op("CumSum", ["attention_mask", net.ints([1], [])]), net.ints([1], [])]);
      const clipped = net.op("Max", [counted, net.ints([0], [])]);
      const start = net.op("Reshape", [before, net.ints([1])]);
      const end = net.op("Reshape", [net.op("Add", [before, length]), net.ints([1])]);
      return net.op("Slice", [clipped, start, end, net.ints([1])]);
    }
    case "none":
      return undefined;
    default:
      return positions satisfies never;
  }
}

/** What is added to scores, [batch or 1, heads or 1, sequence, rows]; undefined for nothing. */
function maskOf(around: Around): string | undefined {
  const { net, style, length, before } = around;
  const low = net.float(-3.4e38);
  const zero = net.float(0);
  const total = isGrowing(style) ? net.op("Add", [before, length]) : net.ints([sizes.static], []);
  const columns = net.range(net.ints([0], []), total); // [rows]
  const rows = net.unsqueeze(rowsOf(around), 1); // [sequence, 1]
  const causal = net.op("LessOrEqual", [columns, rows]);
  const added = (visible: string): string => net.unsqueeze(net.op("Where", [visible, zero, low]), 0, 1);
  const padding = (): string => net.unsqueeze(net.op("Cast", ["attention_mask"], { to: 9 }), 1, 2); // [batch, 1, 1, rows]
  const both = (visible: string): string => net.op("Where", [net.op("And", [visible, padding()]), zero, low]);
  const mask = style.mask ?? "causal";
  switch (mask) {
    case "none":
      return undefined;
    case "causal":
      return isGrowing(style) ? both(causal) : added(causal);
    case "triu": {
      const shape = net.concat(
        [net.op("Reshape", [length, net.ints([1])]), net.op("Reshape", [total, net.ints([1])])],
        0,
      );
      const full = net.op("Expand", [net.float(-Infinity), shape]);
      const shift = net.op("Add", [before, net.ints([1], [])]);
      return net.unsqueeze(net.op("Trilu", [full, shift], { upper: 1 }), 0, 1);
    }
    case "subtract": {
      const bits = net.op("Cast", [net.op("And", [causal, padding()])], { to: 1 });
      return net.op("Mul", [net.op("Sub", [net.float(1), bits]), net.float(-10000)]);
    }
    case "window":
    case "chunk": {
      const wide = net.ints([style.window ?? 3], []);
      const near =
        style.mask === "window"
          ? net.op("Greater", [columns, net.op("Sub", [rows, wide])])
          : net.op("Equal", [net.op("Div", [columns, wide]), net.op("Div", [rows, wide])]);
      const visible = net.op("And", [causal, near]);
      return around.usesMask ? both(visible) : added(visible);
    }
    case "alibi": {
      const slopes = net.weight([1, sizes.heads, 1, 1], 0.2);
      const distance = net.op("Cast", [net.op("Sub", [columns, rows])], { to: 1 });
      return net.op("Add", [net.op("Mul", [slopes, distance]), both(causal)]);
    }
    case "input":
      net.inputs.push(value("mask", "float32", [style.batch ?? "batch", 1, style.tokens ?? "sequence", "total"]));
      return "mask";
    case "cumulative":
      return both(causal);
    case "padding-only":
      return net.op("Where", [padding(), zero, low]);
    case "where-scores":
      return net.unsqueeze(causal, 0, 1);
    case "tril-gather": {
      const most = sizes.positions;
      const bits = Array.from({ length: most * most }, (_, at) => (at % most <= Math.floor(at / most) ? 1 : 0));
      const table = net.op("Cast", [net.ints(bits, [1, 1, most, most])], { to: 9 });
      const start = net.op("Reshape", [before, net.ints([1])]);
      const end = net.op("Reshape", [total, net.ints([1])]);
      const own = net.op("Slice", [table, start, end, net.ints([2])]);
      return both(net.op("Slice", [own, net.ints([0]), end, net.ints([3])]));
    }
    default:
      return mask satisfies never;
  }
}

interface Operands {
  readonly q: string;
  readonly k: string;
  readonly v: string;
  readonly caches: readonly string[];
  readonly presents: readonly string[];
  readonly mask: string | undefined;
  readonly place: string | undefined;
  readonly count: number;
}

function attention(around: Around, operands: Operands): string {
  const { net, style } = around;
  const { growth = "concat", attend = "written" } = style;
  const { q, k, v, caches, presents, mask, count } = operands;
  const { heads, head } = sizes;
  const microsoft = "com.microsoft";
  if (growth === "attention-packed" || growth === "attention") {
    const packed = growth === "attention-packed";
    const laid = (name: string, of: number): string =>
      packed ? name : net.transpose(net.reshape(name, 0, 0, of, head), 0, 2, 1, 3);
    const out = net.op(
      "Attention",
      [laid(q, heads), laid(k, count), laid(v, count), mask, ...caches],
      {
        ...(mask === undefined ? { is_causal: 1 } : {}),
        ...(packed ? { q_num_heads: heads, kv_num_heads: count } : {}),
      },
      { outputs: [`y_${presents[0]}`, ...presents] },
    );
    return packed ? out : net.reshape(net.transpose(out, 0, 2, 1, 3), 0, 0, heads * head);
  }
  if (growth === "gqa" || growth === "gqa-packed") {
    const packed = growth === "gqa-packed";
    const tables =
      style.rotary === true
        ? [net.weight([sizes.positions, head / 2], 1), net.weight([sizes.positions, head / 2], 1)]
        : [];
    const projections = packed ? [net.concat([q, k, v], 2), undefined, undefined] : [q, k, v];
    return net.op(
      "GroupQueryAttention",
      [...projections, ...caches, "seqlens_k", "total_sequence_length", ...tables],
      {
        num_heads: heads,
        kv_num_heads: count,
        ...(style.rotary === true ? { do_rotary: 1 } : {}),
        ...(style.window === undefined ? {} : { local_window_size: style.window }),
        ...(attend === "capped" ? { softcap: float(2) } : {}),
      },
      { domain: microsoft, outputs: [`y_${presents[0]}`, ...presents] },
    );
  }
  if (growth === "mha") {
    const bias = net.weight([3 * heads * head]);
    return net.op(
      "MultiHeadAttention",
      [q, k, v, bias, undefined, mask, ...caches],
      { num_heads: heads, ...(mask === undefined ? { unidirectional: 1 } : {}) },
      { domain: microsoft, outputs: [`y_${presents[0]}`, ...presents] },
    );
  }
  const keys = grown(around, k, caches[0], presents[0], true, count);
  const values = grown(around, v, caches[1], presents[1], false, count);
  if (attend === "node-packed") {
    const joined = (name: string): string => (style.layout === "BSE" ? name : net.reshape(name, 0, 0, count * head));
    return net.op("Attention", [q, joined(keys), joined(values), mask], { q_num_heads: heads, kv_num_heads: count });
  }
  const queries = net.transpose(net.reshape(q, 0, 0, heads, head), 0, 2, 1, 3);
  const [fullKeys, fullValues] = [byHeads(around, keys, true, count), byHeads(around, values, false, count)];
  return attendTo(around, queries, fullKeys, fullValues, mask, count);
}

/** A cache as [batch, heads, rows, size]. */
function byHeads({ net, style }: Around, name: string, isKey: boolean, count: number): string {
  const { layout = "BNSH" } = style;
  if (layout === "BSE") return net.transpose(net.reshape(name, 0, 0, count, sizes.head), 0, 2, 1, 3);
  if (layout === "BSNH") return net.transpose(name, 0, 2, 1, 3);
  return layout === "BNHS" && isKey ? net.transpose(name, 0, 1, 3, 2) : name;
}

/** New rows behind or among the old ones. */
function grown(around: Around, rows: string, cache: string, present: string, isKey: boolean, count: number): string {
  const { net, style, length } = around;
  const { layout = "BNSH", growth = "concat" } = style;
  const split = layout === "BSE" ? rows : net.reshape(rows, 0, 0, count, sizes.head);
  const laid =
    layout === "BSE" || layout === "BSNH"
      ? split
      : layout === "BNHS" && isKey
        ? net.transpose(split, 0, 2, 3, 1)
        : net.transpose(split, 0, 2, 1, 3);
  const axis = rowsAxis(style, isKey);
  switch (growth) {
    case "concat":
      return net.op("Concat", [cache, laid], { axis }, { output: present });
    case "scatter-rows": {
      const order = [axis, ...[0, 1, 2, 3].filter((own) => own !== axis)];
      const back = [0, 1, 2, 3].map((own) => order.indexOf(own));
      const written = net.op("ScatterND", [
        net.transpose(cache, ...order),
        net.unsqueeze(rowsOf(around), 1),
        net.transpose(laid, ...order),
      ]);
      return net.op("Transpose", [written], { perm: back }, { output: present });
    }
    case "scatter-nd": {
      const shape = net.concat(
        [net.size(cache, 0), net.ints([count]), net.op("Reshape", [length, net.ints([1])]), net.ints([1])],
        0,
      );
      const index = (of: string): string => net.op("Expand", [of, shape]);
      const samples = net.unsqueeze(net.range(net.ints([0], []), net.scalarSize(cache, 0)), 1, 2, 3);
      const indices = net.concat(
        [
          index(samples),
          index(net.ints([...Array(count).keys()], [1, count, 1, 1])),
          index(net.unsqueeze(rowsOf(around), 0, 1, 3)),
        ],
        3,
      );
      return net.op("ScatterND", [cache, indices, laid], {}, { output: present });
    }
    case "scatter-elements": {
      const wide = net.unsqueeze(rowsOf(around), ...[0, 1, 2, 3].filter((own) => own !== axis));
      return net.op(
        "ScatterElements",
        [cache, net.op("Expand", [wide, net.op("Shape", [laid])]), laid],
        { axis },
        { output: present },
      );
    }
    default:
      throw new Error(`${growth} has its cache inside`);
  }
}

function repeated({ net, style }: Around, name: string, count: number): string {
  const group = sizes.heads / count;
  if (group === 1) return name;
  const repeat = style.repeat ?? "expand";
  switch (repeat) {
    case "none":
      return name;
    case "expand": {
      const wide = net.unsqueeze(name, 2);
      const shape = net.concat(
        [net.size(name, 0), net.ints([count, group]), net.size(name, 2), net.ints([sizes.head])],
        0,
      );
      return net.reshape(net.op("Expand", [wide, shape]), 0, sizes.heads, -1, sizes.head);
    }
    case "tile":
      return net.reshape(
        net.op("Tile", [net.unsqueeze(name, 2), net.ints([1, 1, group, 1, 1])]),
        0,
        sizes.heads,
        -1,
        sizes.head,
      );
    case "concat":
      return net.reshape(
        net.concat(
          Array.from({ length: group }, () => net.unsqueeze(name, 2)),
          2,
        ),
        0,
        sizes.heads,
        -1,
        sizes.head,
      );
    default:
      return repeat satisfies never;
  }
}

function attendTo(
  around: Around,
  queries: string,
  keys: string,
  values: string,
  mask: string | undefined,
  count: number,
): string {
  const { net, style } = around;
  const { attend = "written" } = style;
  const { heads, head } = sizes;
  const scale = 1 / Math.sqrt(head);
  const out = (context: string): string => net.reshape(net.transpose(context, 0, 2, 1, 3), 0, 0, heads * head);
  if (attend === "node")
    return out(
      net.op("Attention", [queries, repeated(around, keys, count), repeated(around, values, count), mask], {
        scale: float(scale),
      }),
    );
  if (attend === "five") {
    const group = heads / count;
    const wide = (name: string): string => net.unsqueeze(name, 2);
    const scores = net.op("Mul", [
      net.op("MatMul", [net.reshape(queries, 0, count, group, -1, head), net.transpose(wide(keys), 0, 1, 2, 4, 3)]),
      net.float(scale),
    ]);
    const weights = net.op("Softmax", [mask === undefined ? scores : net.op("Add", [scores, net.unsqueeze(mask, 2)])], {
      axis: -1,
    });
    return out(net.reshape(net.op("MatMul", [weights, wide(values)]), 0, heads, -1, head));
  }
  const [k, v] = [repeated(around, keys, count), repeated(around, values, count)];
  if (attend === "merged") {
    const joined = (name: string, rows: string): string =>
      net.op("Reshape", [name, net.concat([net.ints([-1]), rows, net.ints([head])], 0)]);
    const lengthOf = (name: string): string => net.size(name, 2);
    const scores = net.op("Mul", [
      net.op("MatMul", [joined(queries, lengthOf(queries)), net.transpose(joined(k, lengthOf(k)), 0, 2, 1)]),
      net.float(scale),
    ]);
    const apart = net.op("Reshape", [scores, net.concat([net.ints([-1, heads]), lengthOf(queries), lengthOf(k)], 0)]);
    const weights = net.op("Softmax", [mask === undefined ? apart : net.op("Add", [apart, mask])], { axis: -1 });
    const flat = net.op("Reshape", [weights, net.concat([net.ints([-1]), lengthOf(queries), lengthOf(k)], 0)]);
    const context = net.op("MatMul", [flat, joined(v, lengthOf(v))]);
    return out(
      net.op("Reshape", [context, net.concat([net.ints([-1, heads]), lengthOf(queries), net.ints([head])], 0)]),
    );
  }
  const scaled = attend === "scaled-queries" ? net.op("Mul", [queries, net.float(scale)]) : queries;
  let scores = net.op("MatMul", [scaled, net.transpose(k, 0, 1, 3, 2)]);
  if (attend === "div") scores = net.op("Div", [scores, net.float(Math.sqrt(head))]);
  else if (attend !== "scaled-queries") scores = net.op("Mul", [scores, net.float(scale)]);
  if (attend === "capped")
    scores = net.op("Mul", [net.op("Tanh", [net.op("Div", [scores, net.float(2)])]), net.float(2)]);
  if (style.mask === "where-scores") scores = net.op("Where", [mask!, scores, net.float(-1e9)]);
  else if (mask !== undefined) scores = net.op("Add", [scores, mask]);
  let weights = net.op("Softmax", [scores], { axis: -1 });
  if (attend === "guarded") weights = net.op("Where", [net.op("IsNaN", [weights]), net.float(0), weights]);
  return out(net.op("MatMul", [weights, v]));
}
