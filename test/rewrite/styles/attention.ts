// Attention: operators with caches inside, nodes, and written out.
import { float } from "../../../src/onnx/build.js";
import { type Style, type StyleSizes } from "./style.js";
import { type Around, type Operands } from "./net.js";
import { byHeads, grown, repeated } from "./caches.js";

export function attention(around: Around, operands: Operands): string {
  const { net, style } = around;
  const { growth = "concat", attend = "written" } = style;
  const { q, k, v, caches, presents, mask, count } = operands;
  const { heads, head } = net.sizes;
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
        ? [net.weight([net.sizes.positions, head / 2], 1), net.weight([net.sizes.positions, head / 2], 1)]
        : [];
    const projections = packed ? [net.concat([q, k, v], 2), undefined, undefined] : [q, k, v];
    const given = [
      ...projections,
      ...caches,
      ...lengthsOf(around),
      ...tables,
      ...(style.operands === "positions" ? [operands.place] : []),
    ];
    const left = new Array<undefined>(14 - given.length).fill(undefined);
    const norms = style.operands === "norms" ? [...left, net.weight([head], 1), net.weight([head], 1)] : [];
    return net.op(
      "GroupQueryAttention",
      [...given, ...norms],
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
      [q, k, v, bias, style.operands === "padding" ? "padding" : undefined, mask, ...caches],
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

/** The last row of each sample, and the rows of the longest: as inputs, or counted from the mask as published models do. */
export function lengthsOf({ net, style }: Around): string[] {
  if (style.lengthsFromMask !== true) return ["seqlens_k", "total_sequence_length"];
  const counted = net.op("ReduceSum", ["attention_mask", net.ints([1])], { keepdims: 0 });
  const last = net.op("Cast", [net.op("Sub", [counted, net.ints([1], [])])], { to: 6 });
  return [last, net.op("Cast", [net.scalarSize("attention_mask", 1)], { to: 6 })];
}

/** The shape of a cache with keys and values beside each other: for each head, or for one that has no axis of its own. */
export const besideShape = (
  { layout }: Style,
  { kvHeads, head, valueHead }: StyleSizes,
  rows: string,
): (string | number)[] =>
  layout === "BSE" ? ["batch", rows, kvHeads * (head + valueHead)] : ["batch", kvHeads, rows, head + valueHead];

/** Keys and values that are joined, kept and cut apart again. */
export function sideBySide(around: Around, { q, k, v, caches, presents, mask, count }: Operands): string {
  const { net, style } = around;
  const { heads, head, valueHead } = net.sizes;
  const isFlat = style.layout === "BSE";
  const laid = (of: string, size: number): string =>
    isFlat ? of : net.transpose(net.reshape(of, 0, 0, count, size), 0, 2, 1, 3);
  const both = net.concat([laid(k, head), laid(v, valueHead)], isFlat ? 2 : 3);
  const present = net.op("Concat", [caches[0], both], { axis: isFlat ? 1 : 2 }, { output: presents[0] });
  const widths = [head, valueHead].map((size) => (isFlat ? count * size : size));
  const [keys, values] = [`${present}.key`, `${present}.value`];
  net.op("Split", [present, net.ints(widths)], { axis: -1 }, { outputs: [keys, values] });
  const byHead = (of: string, size: number): string =>
    isFlat ? net.transpose(net.reshape(of, 0, 0, count, size), 0, 2, 1, 3) : of;
  const queries = net.transpose(net.reshape(q, 0, 0, heads, head), 0, 2, 1, 3);
  return attendTo(around, queries, byHead(keys, head), byHead(values, valueHead), mask, count);
}

export function attendTo(
  around: Around,
  queries: string,
  keys: string,
  values: string,
  mask: string | undefined,
  count: number,
): string {
  const { net, style } = around;
  const { attend = "written" } = style;
  const { heads, head } = net.sizes;
  const scale = 1 / Math.sqrt(head);
  const out = (context: string): string =>
    net.reshape(net.transpose(context, 0, 2, 1, 3), 0, 0, heads * net.sizes.valueHead);
  if (style.half === true) {
    const [q, m] = [queries, mask!].map((name) => net.op("Cast", [name], { to: 10 }));
    const operands = [q, repeated(around, keys, count, true), repeated(around, values, count, false), m];
    return out(net.op("Cast", [net.op("Attention", operands, { scale: float(scale) })], { to: 1 }));
  }
  if (attend === "node")
    return out(
      net.op(
        "Attention",
        [queries, repeated(around, keys, count, true), repeated(around, values, count, false), mask],
        {
          scale: float(scale),
        },
      ),
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
    return out(net.reshape(net.op("MatMul", [weights, wide(values)]), 0, heads, -1, net.sizes.valueHead));
  }
  const [k, v] = [repeated(around, keys, count, true), repeated(around, values, count, false)];
  if (attend === "merged") {
    const joined = (name: string, rows: string, size = head): string =>
      net.op("Reshape", [name, net.concat([net.ints([-1]), rows, net.ints([size])], 0)]);
    const lengthOf = (name: string): string => net.size(name, 2);
    const scores = net.op("Mul", [
      net.op("MatMul", [joined(queries, lengthOf(queries)), net.transpose(joined(k, lengthOf(k)), 0, 2, 1)]),
      net.float(scale),
    ]);
    const apart = net.op("Reshape", [scores, net.concat([net.ints([-1, heads]), lengthOf(queries), lengthOf(k)], 0)]);
    const weights = net.op("Softmax", [mask === undefined ? apart : net.op("Add", [apart, mask])], { axis: -1 });
    const flat = net.op("Reshape", [weights, net.concat([net.ints([-1]), lengthOf(queries), lengthOf(k)], 0)]);
    const context = net.op("MatMul", [flat, joined(v, lengthOf(v), net.sizes.valueHead)]);
    return out(
      net.op("Reshape", [
        context,
        net.concat([net.ints([-1, heads]), lengthOf(queries), net.ints([net.sizes.valueHead])], 0),
      ]),
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
  if (attend === "sinks") {
    const shape = net.concat([net.size(scores, 0), net.ints([heads]), net.size(scores, 2), net.ints([1])], 0);
    const sinks = net.op("Expand", [net.reshape(net.weight([heads]), 1, -1, 1, 1), shape]);
    const all = net.concat([scores, sinks], -1);
    scores = net.op("Sub", [all, net.op("ReduceMax", [all, net.ints([-1])], { keepdims: 1 })]);
  }
  let weights = net.op("Softmax", [scores], { axis: -1 });
  if (attend === "sinks") weights = net.op("Slice", [weights, net.ints([0]), net.ints([-1]), net.ints([-1])]);
  if (attend === "guarded") weights = net.op("Where", [net.op("IsNaN", [weights]), net.float(0), weights]);
  return out(net.op("MatMul", [weights, v]));
}
