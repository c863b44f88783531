/** How a step of a program is judged by the fast paths of its operator. Knows operands and shapes; no memory and no threads. */
import type { Graph, Value } from "../../graph/graph.js";
import type { KernelCall, Operand, WasmKernel } from "../../kernels/wasm-kernel.js";
import type { Program, Step } from "../../plan/program.js";
import type { View } from "../../tensor/view.js";

/** Fast paths by operator: `domain::name`. */
export type KernelTable = ReadonlyMap<string, readonly WasmKernel[]>;

/** The first fast path that accepts the call, or the reasons why there is none. */
export function chooseKernel(
  kernels: KernelTable,
  { node: { op } }: Step,
  call: KernelCall,
): { readonly kernel: WasmKernel | undefined; readonly reasons: readonly string[] } {
  const reasons = new Set<string>();
  for (const candidate of kernels.get(`${op.domain}::${op.name}`) ?? []) {
    const answer = candidate.accepts(call);
    if (answer === true) return { kernel: candidate, reasons: [] };
    reasons.add(answer);
  }
  return { kernel: undefined, reasons: reasons.size === 0 ? ["it has no kernel"] : [...reasons] };
}

const inputsOf = new WeakMap<Graph, ReadonlySet<Value>>();

/** True for what the model itself holds, and no feed replaces. */
export function isWeight({ plan: { graph } }: Program, value: Value | undefined): boolean {
  if (value?.initializer === undefined) return false;
  let inputs = inputsOf.get(graph);
  if (inputs === undefined) inputsOf.set(graph, (inputs = new Set(graph.inputs)));
  return !inputs.has(value);
}

/** A step's call as kernels judge it, with its operands where these views show them. */
export function kernelCallOf(
  program: Program,
  { node }: Step,
  inputs: readonly (View | undefined)[],
  outputs: readonly (View | undefined)[],
): KernelCall {
  return {
    label: node.label,
    opset: node.opset,
    attrs: node.attrs,
    inputs: inputs.map((view, at) => {
      const value = node.inputs[at];
      // What shapes decide, and feeds that decide shapes, belong to one program and are not worth another form of their own.
      const constant = isWeight(program, value);
      const known = constant || value === undefined ? undefined : program.facts.get(value)?.constant;
      return view && operandOf(known ?? view, constant, constant || known !== undefined);
    }),
    outputs: outputs.map((view) => view && operandOf(view, false, false)),
  };
}

const operandOf = (view: View, constant: boolean, known: boolean): Operand => ({
  type: view.type,
  shape: view.shape,
  strides: view.strides,
  contiguous: view.contiguous,
  constant,
  known,
  view,
});
