/** Gather, GatherElements and GatherND: elements picked by index. Move elements without looking at them. */
import { int } from "../../graph/attribute.js";
import { isKnown, isKnownShape, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { contentsOf, movedContents } from "../shared/rules/contents.js";
import { checkIndexShape, checkIndices, readIndices } from "../shared/rules/indices.js";
import { plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";
import { indexTypes } from "../shared/rules/types.js";
import { gatherElements, gatherRuns, gatherSlices } from "./move.js";

/** Fails for indices that do not point into `data` along an axis. */
function checkAlong(
  call: CallContext,
  { data, indices }: { readonly data: Fact; readonly indices: Fact },
  axis: number,
): void {
  const size = data.shape?.at(axis);
  if (size !== undefined && isKnown(size)) checkIndices(call, "indices", indices, [size]);
}

/** Picks whole slices of `data` along `axis`: the result has the dimensions of `indices` in the place of the axis. */
export const Gather = defineOp({
  name: "Gather",
  since: 1,
  types: { T: plainTypes, Tind: indexTypes },
  inputs: { data: tensor("T"), indices: tensor("Tind") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(0) },
  infer(call) {
    const { data, indices } = call.inputs;
    if (data.shape === undefined) return {};
    call.check(data.shape.length > 0, "data must have at least 1 dimension, got a scalar");
    const axis = normalizeAxis(call, call.attrs.axis, data.shape.length);
    if (indices.shape === undefined) return {};
    return { output: { shape: [...data.shape.slice(0, axis), ...indices.shape, ...data.shape.slice(axis + 1)] } };
  },
  integers({ inputs, attrs }) {
    const { data, indices } = inputs;
    const picked = contentsOf(indices);
    if (!isKnownShape(data.shape) || !isKnownShape(indices.shape) || !picked?.every(isKnown)) return undefined;
    const axis = attrs.axis < 0 ? attrs.axis + data.shape.length : attrs.axis;
    const size = data.shape[axis];
    const normalized = picked.map((index) => (index < 0 ? index + size : index));
    if (normalized.some((index) => index < 0 || index >= size)) return undefined;
    const shape = [...data.shape.slice(0, axis), ...indices.shape, ...data.shape.slice(axis + 1)];
    return movedContents(data, shape, (from, to) => gatherSlices(from, to, axis, normalized));
  },
  looksAt: ["indices"],
  picksRows: { of: "data", by: "indices", along: "axis" },
  validate: (call) => checkAlong(call, call.inputs, call.attrs.axis),
  reference(call) {
    const { data, indices } = call.inputs;
    const axis = call.attrs.axis < 0 ? call.attrs.axis + data.rank : call.attrs.axis;
    const picked = readIndices(call, "indices", indices, () => data.shape[axis]);
    gatherSlices(data, call.outputs.output, axis, picked);
  },
});

/** Picks one element for each index: the index replaces the coordinate along `axis`. */
export const GatherElements = defineOp({
  name: "GatherElements",
  since: 11,
  types: { T: plainTypes, Tind: indexTypes },
  inputs: { data: tensor("T"), indices: tensor("Tind") },
  outputs: { output: tensor("T") },
  attrs: { axis: int(0) },
  infer(call) {
    const data = call.inputs.data.shape;
    const indices = call.inputs.indices.shape;
    const rank = data?.length ?? indices?.length;
    if (rank === undefined) return {};
    call.check(rank > 0, "data must have at least 1 dimension, got a scalar");
    const axis = normalizeAxis(call, call.attrs.axis, rank);
    if (indices === undefined) return { output: { shape: data!.map(unknownDim) } };
    if (data === undefined) return { output: { shape: indices } };
    checkIndexShape(call, indices, data, axis);
    return { output: { shape: indices } };
  },
  looksAt: ["indices"],
  validate: (call) => checkAlong(call, call.inputs, call.attrs.axis),
  reference(call) {
    const { data, indices } = call.inputs;
    const axis = call.attrs.axis < 0 ? call.attrs.axis + data.rank : call.attrs.axis;
    const picked = readIndices(call, "indices", indices, () => data.shape[axis]);
    gatherElements(data, call.outputs.output, axis, picked);
  },
});

/** Picks the element or slice of `data` that each row of `indices` points at, the first `batch_dims` dimensions going along. */
export const GatherND = defineOp({
  name: "GatherND",
  since: 11,
  types: { T: plainTypes },
  inputs: { data: tensor("T"), indices: tensor("int64") },
  outputs: { output: tensor("T") },
  attrs: { batch_dims: int(0) },
  infer(call) {
    const data = call.inputs.data.shape;
    const indices = call.inputs.indices.shape;
    const { batch_dims: batch } = call.attrs;
    if (data === undefined || indices === undefined) return {};
    call.check(data.length > 0 && indices.length > 0, "data and indices must have at least 1 dimension, got a scalar");
    call.check(
      batch >= 0 && batch < Math.min(data.length, indices.length),
      () => `batch_dims must lie in [0, ${Math.min(data.length, indices.length) - 1}], got ${batch}`,
      "invalid-argument",
    );
    for (let axis = 0; axis < batch; axis++) {
      unifyDims(call, data[axis], indices[axis], `data and indices must agree in the batch dimension ${axis}`);
    }
    const width = indices.at(-1)!;
    if (!isKnown(width)) return {};
    call.check(
      width >= 1 && width <= data.length - batch,
      () => `the last dimension of indices must lie in [1, ${data.length - batch}], got ${width}`,
    );
    return { output: { shape: [...indices.slice(0, -1), ...data.slice(batch + width)] } };
  },
  looksAt: ["indices"],
  validate(call) {
    const { data, indices } = call.inputs;
    const { batch_dims: batch } = call.attrs;
    const width = indices.shape?.at(-1);
    if (isKnownShape(data.shape) && width !== undefined && isKnown(width))
      checkIndices(call, "indices", indices, data.shape.slice(batch, batch + width));
  },
  reference(call) {
    const { data, indices } = call.inputs;
    const { batch_dims: batch } = call.attrs;
    const width = indices.shape.at(-1)!;
    const picked = readIndices(call, "indices", indices, (position) => data.shape[batch + (position % width)]);
    gatherRuns(data, call.outputs.output, batch, width, picked);
  },
});
