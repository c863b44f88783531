// Small decoders made by code, in the forms that exporters and runtimes give them: layouts, ways to grow, masks, repeated heads, positions.
import { buildModel, value } from "../../../src/onnx/build.js";
import type { Model } from "../../../src/onnx/model.js";
import { type Style, sizesOf } from "./style.js";
import { type Around, Net } from "./net.js";
import { isGrowing, cacheShape, rowsAxis, rowsBefore, positionsOf, positionRows } from "./rows.js";
import { maskOf } from "./masks.js";
import { attention, attendTo, sideBySide, besideShape } from "./attention.js";
import { declared, mergedDecoder } from "./variants.js";
import { fusedProjections, stackedCaches, crossAttention } from "./layers.js";

/** A decoder in a style. */
export function styledDecoder(style: Style = {}, seed = 0): Model {
  const model = declared(singleDecoder(style, seed), style);
  return style.merged === true ? mergedDecoder(model) : model;
}

function singleDecoder(style: Style, seed: number): Model {
  const { opset = 18, growth = "concat", positions = "input", tokens = "sequence", batch = "batch" } = style;
  const sizes = sizesOf(style, seed);
  const net = new Net(sizes, style.unnamed === true);
  const { embedding, vocabulary, heads, kvHeads, head, valueHead, layers } = sizes;
  const ids = style.embeds === true ? "inputs_embeds" : "input_ids";
  net.inputs.push(
    style.embeds === true
      ? value(ids, "float32", [batch, tokens, embedding])
      : value(ids, style.idType ?? "int64", [batch, tokens]),
  );
  const usesMask =
    [
      "causal",
      "window",
      "subtract",
      "cumulative",
      "padding-only",
      "alibi",
      "buckets",
      "buckets-alike",
      "joined-triangle",
      "tril-gather",
    ].includes(style.mask ?? "causal") && isGrowing(style);
  if (usesMask) net.inputs.push(value("attention_mask", style.maskType ?? "int64", [batch, "total"]));
  if (["input", "flat", "one-row", "looked-up", "computed"].includes(positions))
    net.inputs.push(
      value(
        "position_ids",
        style.positionType ?? "int64",
        positions === "flat" ? [tokens] : [positions === "one-row" ? 1 : batch, tokens],
      ),
    );
  if (!isGrowing(style) && style.counter !== "arange")
    net.inputs.push(
      style.counter === "start" ? value("start_pos", "int64", []) : value("cache_position", "int64", [tokens]),
    );
  if (style.operands === "padding") net.inputs.push(value("padding", "int32", [batch, "total"]));
  if (growth === "gqa" || growth === "gqa-packed")
    if (style.lengthsFromMask === true) net.inputs.push(value("attention_mask", "int64", [batch, "total"]));
    else net.inputs.push(value("seqlens_k", "int32", [batch]), value("total_sequence_length", "int32", []));
  const cached = style.shared === true ? layers - 1 : layers;
  const pasts = Array.from({ length: layers }, (_, layer) => [`past.${layer}.key`, `past.${layer}.value`]);
  const count = growth === "mha" ? heads : kvHeads;
  pasts.slice(0, Math.max(cached, 1)).forEach(([key, own], layer) => {
    if (growth === "side-by-side")
      net.inputs.push(value(`past_${layer}`, "float32", besideShape(style, sizes, "past")));
    else if (growth === "stacked")
      net.inputs.push(value(`past_${layer}`, "float32", [2, ...cacheShape(style, sizes, count, true, "past")]));
    else
      net.inputs.push(
        value(key, "float32", cacheShape(style, sizes, count, true, "past")),
        value(own, "float32", cacheShape(style, sizes, count, false, "past")),
      );
    if (style.cross === true)
      for (const which of ["key", "value"])
        net.inputs.push(value(`past.${layer}.encoder.${which}`, "float32", [batch, heads, "encoded", head]));
  });
  const around: Around = {
    net,
    style,
    length: net.scalarSize(ids, 1),
    before: ["stacked", "side-by-side"].includes(growth)
      ? net.scalarSize("past_0", growth === "stacked" ? 3 : rowsAxis(style, false))
      : rowsBefore(net, style, pasts[0][0]),
    usesMask,
  };
  let hidden = style.embeds === true ? ids : net.op("Gather", [net.weight([vocabulary, embedding]), ids], { axis: 0 });
  const place = positionsOf(around);
  const rows = positionRows(around, embedding);
  if (rows !== undefined) hidden = net.op("Add", [hidden, rows]);
  else if (place !== undefined && style.rotary !== true)
    hidden = net.op("Add", [hidden, net.op("Gather", [net.weight([sizes.positions, embedding]), place], { axis: 0 })]);
  const mask = maskOf(around);
  for (const [layer, caches] of pasts.entries()) {
    if (style.shared === true && layer === layers - 1 && layer > 0) {
      const shared = net.linear(hidden, embedding, heads * head, style);
      const queries = net.transpose(net.reshape(shared, 0, 0, heads, head), 0, 2, 1, 3);
      const both = [0, 1].map((at) => [`present.${layer - 1}.key`, `present.${layer - 1}.value`][at]);
      const seen = attendTo(around, queries, both[0], both[1], mask, count);
      hidden = net.op("Add", [hidden, net.linear(seen, heads * valueHead, embedding, style)]);
      break;
    }
    const [q, k, v] =
      style.block === true
        ? fusedProjections(net, hidden, opset)
        : [heads * head, count * head, count * valueHead].map((width) => net.linear(hidden, embedding, width, style));
    const presents = [`present.${layer}.key`, `present.${layer}.value`];
    if (growth === "side-by-side") {
      const present = `present_${layer}`;
      net.outputs.push(value(present, "float32", besideShape(style, sizes, "total")));
      const context = sideBySide(around, {
        q,
        k,
        v,
        caches: [`past_${layer}`],
        presents: [present],
        mask,
        place,
        count,
      });
      hidden = net.op("Add", [hidden, net.linear(context, heads * valueHead, embedding, style)]);
      continue;
    }
    const stacked = growth === "stacked" ? stackedCaches(net, layer) : caches;
    const context = attention(around, { q, k, v, caches: stacked, presents, mask, place, count });
    hidden = net.op("Add", [hidden, net.linear(context, heads * valueHead, embedding, style)]);
    if (style.cross === true) hidden = net.op("Add", [hidden, crossAttention(net, hidden, layer)]);
    if (growth === "stacked") {
      const parts = presents.map((name) => net.unsqueeze(name, 0));
      net.op("Concat", parts, { axis: 0 }, { output: `present_${layer}` });
      net.outputs.push(value(`present_${layer}`, "float32", [2, ...cacheShape(style, sizes, count, true, "total")]));
      continue;
    }
    presents.forEach((name, at) =>
      net.outputs.push(value(name, "float32", cacheShape(style, sizes, count, at === 0, "total"))),
    );
  }
  if (style.last === true) hidden = net.op("Slice", [hidden, net.ints([-1]), net.ints([2 ** 40]), net.ints([1])]);
  net.op("MatMul", [hidden, net.weight([embedding, vocabulary])], {}, { output: "logits" });
  net.outputs.unshift(value("logits", "float32", [batch, style.last === true ? 1 : tokens, vocabulary]));
  const microsoft = net.nodes.some(({ domain }) => domain === "com.microsoft");
  return buildModel({
    opset: microsoft ? { "": opset, "com.microsoft": 1 } : opset,
    nodes: net.nodes,
    inputs: net.inputs,
    outputs: net.outputs,
    initializers: net.weights,
  });
}
