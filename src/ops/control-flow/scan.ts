/** Scan: a body run for each element along an axis, states carried from run to run, what it yields stacked. */
import { graph, int, ints, required } from "../../graph/attribute.js";
import { type Dim, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { defineOp, type OutputFact, tensor, variadic } from "../../graph/op.js";
import { normalizeAxis, unifyDims } from "../shared/rules/shapes.js";
import { anyType } from "../shared/rules/types.js";
import { elementAt, emptied, handOut, outputsOf, stackInto } from "./body.js";
import { checkDirections, checkList, inferElements, parted, runBody } from "./scan-body.js";

/** Runs `body` for each element of the scanned operands. */
export const scan = defineOp({
  name: "Scan",
  since: 9,
  types: { V: anyType },
  inputs: { initial_state_and_scan_inputs: variadic(tensor("V"), { heterogeneous: true }) },
  outputs: { final_state_and_scan_outputs: variadic(tensor("V"), { heterogeneous: true }) },
  attrs: {
    body: required(graph()),
    num_scan_inputs: required(int()),
    scan_input_axes: ints(),
    scan_input_directions: ints(),
    scan_output_axes: ints(),
    scan_output_directions: ints(),
  },

  infer(call) {
    const { attrs } = call;
    const { states, sequences } = parted(call, call.inputs.initial_state_and_scan_inputs, attrs.num_scan_inputs);
    checkList(call, "scan_input_axes", attrs.scan_input_axes, sequences.length);
    checkDirections(call, "scan_input_directions", attrs.scan_input_directions, sequences.length);
    let length: Dim | undefined;
    const elements = sequences.map(({ type, shape }, at): Fact => {
      if (shape === undefined) return { type, shape };
      const axis = normalizeAxis(call, attrs.scan_input_axes?.[at] ?? 0, shape.length, { name: "scan_input_axes" });
      length =
        length === undefined ? shape[axis] : unifyDims(call, length, shape[axis], "scan inputs must have one length");
      return { type, shape: shape.toSpliced(axis, 1) };
    });
    const { kept, yields } = inferElements(call, states, elements);
    checkList(call, "scan_output_axes", attrs.scan_output_axes, yields.length);
    checkDirections(call, "scan_output_directions", attrs.scan_output_directions, yields.length);
    const stacked = yields.map(({ type, shape }, at): OutputFact => {
      if (shape === undefined) return { type, shape: length === 0 ? [0] : undefined };
      const axis = normalizeAxis(call, attrs.scan_output_axes?.[at] ?? 0, shape.length + 1, {
        name: "scan_output_axes",
      });
      return { type, shape: (length === 0 ? emptied(shape) : shape).toSpliced(axis, 0, length ?? unknownDim()) };
    });
    return { final_state_and_scan_outputs: [...states.map(({ type }, at) => ({ type, shape: kept[at] })), ...stacked] };
  },

  reference(call) {
    const { attrs } = call;
    const { states, sequences } = parted(call, call.inputs.initial_state_and_scan_inputs, attrs.num_scan_inputs);
    const results = outputsOf(call, "final_state_and_scan_outputs");
    const axes = sequences.map(({ rank }, at) => {
      const axis = attrs.scan_input_axes?.[at] ?? 0;
      return axis < 0 ? axis + rank : axis;
    });
    const length = sequences[0].shape[axes[0]];
    const yieldCount = Math.max(0, results.given.length - states.length);
    const left = runBody(call, states, length, yieldCount, (step) =>
      sequences.map((sequence, at) =>
        elementAt(sequence, axes[at], attrs.scan_input_directions?.[at] === 1 ? length - 1 - step : step),
      ),
    );
    left.states.forEach((state, at) => handOut(results, at, state));
    left.yields.forEach((list, at) => {
      const ordered = attrs.scan_output_directions?.[at] === 1 ? list.toReversed() : list;
      stackInto(results, states.length + at, ordered, attrs.scan_output_axes?.[at]);
    });
  },
});
