/** A step of a program as kernels of any device judge it. Knows operands and shapes; no memory and no threads. */
import type { Graph, Value } from "../graph/graph.js";
import { type KernelCall, kernelCall, type Operand } from "../graph/kernel.js";
import type { Program, Step } from "../plan/program.js";
import type { Placed } from "../tensor/placed.js";
import { hostView, View } from "../tensor/view.js";

const inputsOf = new WeakMap<Graph, ReadonlySet<Value>>();

/** True for what the model itself holds, and no feed replaces. */
export function isWeight({ plan: { graph } }: Program, value: Value | undefined): boolean {
  if (value?.initializer === undefined) return false;
  let inputs = inputsOf.get(graph);
  if (inputs === undefined) inputsOf.set(graph, (inputs = new Set(graph.inputs)));
  return !inputs.has(value);
}

/** Operands or outputs, in the declaration's order; undefined where one is left out. */
export type Operands = readonly (Operand | undefined)[];

/** A step's call as kernels judge it, with its operands in these places. */
export function kernelCallOf(
  program: Program,
  step: Step,
  inputs: readonly (Placed | undefined)[],
  outputs: readonly (Placed | undefined)[],
): KernelCall {
  return kernelCall(step.node, ...callOperands(program, step, inputs, outputs, hostView));
}

/**
 * The operands and outputs of a step's call. `viewOf` shows a place that is not on the host, without bytes; `looked` hears of operands whose bytes
 * somebody looks at.
 */
export function callOperands(
  program: Program,
  { node }: Step,
  inputs: readonly (Placed | undefined)[],
  outputs: readonly (Placed | undefined)[],
  viewOf: (place: Placed) => View,
  looked?: (input: number) => void,
): readonly [inputs: Operands, outputs: Operands] {
  return [
    inputs.map((view, at) => {
      const value = node.inputs[at];
      // What shapes decide, and feeds that decide shapes, belong to one program and are not worth another form of their own.
      const constant = isWeight(program, value);
      // A weight that lies where its bytes cannot be seen shows those that the model has.
      const known = constant
        ? view instanceof View
          ? undefined
          : value!.initializer
        : value && program.facts.get(value)?.constant;
      const look = looked && ((): void => looked(at));
      return view && operandOf(view, known ?? viewOf(view), constant, constant || known !== undefined, look);
    }),
    outputs.map((view) => view && operandOf(view, viewOf(view), false, false)),
  ];
}

const operandOf = (place: Placed, view: View, constant: boolean, known: boolean, look?: () => void): Operand => ({
  type: view.type,
  shape: view.shape,
  strides: view.strides,
  contiguous: view.contiguous,
  constant,
  known,
  place: place instanceof View ? view : place,
  get view() {
    if (known) look?.();
    return view;
  },
});
