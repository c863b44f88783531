/** Scatter, ScatterElements and ScatterND: elements written by index into a copy of `data`, or into `data` itself. */
import { type Attribute, int, oneOf } from "../../graph/attribute.js";
import { isKnown, isKnownShape, type Shape, shapeText } from "../../graph/dim.js";
import { update } from "../../graph/effect.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import type { ElementType } from "../../tensor/element-type.js";
import { checkIndexShape, checkIndices } from "../shared/rules/indices.js";
import { classicTypes, plainTypes } from "../shared/rules/plain-types.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";
import { indexTypes } from "../shared/rules/types.js";
import { scatterElements, scatterRuns, writtenRuns, writtenSlices } from "./move.js";
import { checkReduction, type Reduction } from "./reduction.js";

interface Operands<V> {
  readonly data: V;
  readonly indices: V;
  readonly updates: V;
}

function inferElements(
  call: CallContext,
  inputs: Operands<Fact>,
  axisGiven: number,
): { output: { shape: Shape | undefined } } {
  const data = inputs.data.shape;
  const indices = inputs.indices.shape;
  const updates = inputs.updates.shape;
  if (indices !== undefined && updates !== undefined) {
    const rule = `indices ${shapeText(indices)} and updates ${shapeText(updates)} must have the same shape`;
    call.check(indices.length === updates.length, rule);
    indices.forEach((dim, at) => unifyDims(call, dim, updates[at], rule));
  }
  if (data === undefined) return { output: { shape: undefined } };
  call.check(data.length > 0, "data must have at least 1 dimension, got a scalar");
  const axis = normalizeAxis(call, axisGiven, data.length);
  if (indices !== undefined) checkIndexShape(call, indices, data, axis);
  return { output: { shape: data } };
}

function inferND(call: CallContext, inputs: Operands<Fact>): { output: { shape: Shape | undefined } } {
  const data = inputs.data.shape;
  const indices = inputs.indices.shape;
  const updates = inputs.updates.shape;
  if (data !== undefined && indices !== undefined) {
    call.check(data.length > 0 && indices.length > 0, "data and indices must have at least 1 dimension, got a scalar");
    const width = indices.at(-1)!;
    if (isKnown(width)) {
      call.check(
        width >= 1 && width <= data.length,
        () => `the last dimension of indices must lie in [1, ${data.length}], got ${width}`,
      );
      const expected = [...indices.slice(0, -1), ...data.slice(width)];
      if (updates !== undefined) {
        const rule = `updates must have the shape ${shapeText(expected)}, got ${shapeText(updates)}`;
        call.check(updates.length === expected.length, rule);
        expected.forEach((dim, at) => unifyDims(call, dim, updates[at], rule));
      }
    }
  }
  return { output: { shape: data } };
}

const elementOutput = { output: tensor("T") } as const;
const effects = { output: update("data", { general: true }) } as const;

/** The attribute that some opsets have: what may be done beside writing. */
interface Extra {
  readonly reduction?: Attribute<Reduction>;
}

/** ScatterElements (or Scatter) of one opset. */
function scatterElementsOp(name: string, since: number, types: readonly ElementType[], attrs: Extra = {}) {
  return defineOp({
    name,
    since,
    types: { T: types, Tind: indexTypes },
    inputs: { data: tensor("T"), indices: tensor("Tind"), updates: tensor("T") },
    outputs: elementOutput,
    attrs: { axis: int(0), ...attrs },
    effects,
    infer(call) {
      checkReduction(call, reductionOf(call.attrs), call.inputs.data.type);
      return inferElements(call, call.inputs, call.attrs.axis);
    },
    looksAt: ["indices"],
    validate(call) {
      const size = call.inputs.data.shape?.at(call.attrs.axis);
      if (size !== undefined && isKnown(size)) checkIndices(call, "indices", call.inputs.indices, [size]);
    },
    overwrites: ({ inputs, outputs, attrs }) => ({ output: writtenSlices(inputs.indices, outputs.output, attrs.axis) }),
    reference(call) {
      scatterElements(call, call.inputs, call.outputs.output, call.attrs.axis, reductionOf(call.attrs));
    },
  });
}

/** ScatterND of one opset. */
function scatterNDOp(since: number, types: readonly ElementType[], attrs: Extra = {}) {
  return defineOp({
    name: "ScatterND",
    since,
    types: { T: types },
    inputs: { data: tensor("T"), indices: tensor("int64"), updates: tensor("T") },
    outputs: elementOutput,
    attrs: { ...attrs },
    effects,
    infer(call) {
      checkReduction(call, reductionOf(call.attrs), call.inputs.data.type);
      return inferND(call, call.inputs);
    },
    looksAt: ["indices"],
    validate(call) {
      const { data, indices } = call.inputs;
      const width = indices.shape?.at(-1);
      if (isKnownShape(data.shape) && width !== undefined && isKnown(width))
        checkIndices(call, "indices", indices, data.shape.slice(0, width));
    },
    overwrites: ({ inputs, outputs }) => ({ output: writtenRuns(inputs.indices, outputs.output) }),
    reference(call) {
      scatterRuns(call, call.inputs, call.outputs.output, reductionOf(call.attrs));
    },
  });
}

const reductionOf = (attrs: { readonly reduction?: Reduction }): Reduction => attrs.reduction ?? "none";

const early: Extra = { reduction: oneOf(["none", "add", "mul"], "none") };
const all: Extra = { reduction: oneOf(["none", "add", "mul", "max", "min"], "none") };

/** The old name of ScatterElements. */
export const Scatter = scatterElementsOp("Scatter", 9, classicTypes);

/** Writes each update where its index replaces the coordinate along `axis`. */
export const ScatterElements11 = scatterElementsOp("ScatterElements", 11, plainTypes);

/** As before, and may add or multiply. */
export const ScatterElements16 = scatterElementsOp("ScatterElements", 16, plainTypes, early);

/** As before, and may keep the larger or the smaller. */
export const ScatterElements18 = scatterElementsOp("ScatterElements", 18, plainTypes, all);

/** Writes each slice of `updates` where a row of `indices` points. */
export const ScatterND11 = scatterNDOp(11, plainTypes);

/** As before, and may add or multiply. */
export const ScatterND16 = scatterNDOp(16, plainTypes, early);

/** As before, and may keep the larger or the smaller. */
export const ScatterND18 = scatterNDOp(18, plainTypes, all);
