/**
 * What the kernels of every device have in common: a kernel is bound to declarations, and so to the versions it serves; it judges a call by
 * the names of its operands and by its attributes, typed as they are declared. How it does the work is its device's own matter.
 */
import type { ElementType } from "../tensor/element-type.js";
import type { Placed } from "../tensor/placed.js";
import type { View } from "../tensor/view.js";
import { bindParameters, type Callable } from "./call.js";
import type { AttributeResults, CallContext, Op, Parameter, Parameters, PerParameter } from "./op.js";

/** An operand or output of a call, with its shape in numbers. */
export interface Operand {
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** In elements. */
  readonly strides: readonly number[];
  readonly contiguous: boolean;
  /** True for weights: the bytes never change, so that another form of them can be kept. */
  readonly constant: boolean;
  /** True for what never changes while the program is kept: weights, and what shapes alone decide. Its bytes may be looked at. */
  readonly known: boolean;
  /** Where it lies. */
  readonly place: Placed;
  /** How it lies in its buffer; only of what is known, and on the host, are there bytes in it. */
  readonly view: View;
}

/** One call as kernels judge it, everything but the data: what shared code hands from declaration to kernel without knowing either. */
export interface KernelCall extends Pick<CallContext, "label" | "opset"> {
  readonly inputs: Readonly<Record<string, Operand | readonly Operand[] | undefined>>;
  /** Undefined where an output is not asked for. */
  readonly outputs: Readonly<Record<string, Operand | readonly (Operand | undefined)[] | undefined>>;
  readonly attrs: Readonly<Record<string, unknown>>;
}

/** True for one name, false for several. */
type IsAlone<Name, Every = Name> = Name extends unknown ? ([Every] extends [Name] ? true : false) : never;

/** Outputs by name. An operator's only output is always asked for, of several any may be left out. */
type Asked<Ps extends Parameters> = {
  readonly [N in keyof Ps]: Ps[N] extends Parameter<"variadic">
    ? readonly (Operand | undefined)[]
    : IsAlone<keyof Ps> extends true
      ? Operand
      : Operand | undefined;
};

/** The call of a declared operator, with its own names and types; of several operators, what all have is there without a test. */
export type CallOf<D extends Op> = D extends Op
  ? Pick<CallContext, "label" | "opset"> & {
      readonly inputs: PerParameter<D["inputs"], Operand>;
      readonly outputs: Asked<D["outputs"]>;
      readonly attrs: AttributeResults<D["attrs"]>;
    }
  : never;

/** Declarations that one kernel serves: one at least. */
export type Served = readonly [Op, ...Op[]];

/** A kernel of any device, as it is chosen. */
export interface Kernel {
  /** The declarations themselves, not their names: a later version of an operator has no kernel until one names it. */
  readonly ops: Served;
  /** True, or why not: reasons are shown where the reference implementation runs instead. */
  accepts(call: KernelCall): true | string;
}

/** A kernel that takes down its work with a device's recorder. */
export interface RecordingKernel<Recorder> extends Kernel {
  record(call: KernelCall, recorder: Recorder): void;
}

/** What a kernel does with calls of the declarations that it is bound to. */
export interface KernelPath<Call, Recorder> {
  accepts(call: Call): true | string;
  record(call: Call, recorder: Recorder): void;
}

/** Binds a kernel to the declarations whose calls it serves. */
export function bindKernel<const Ops extends Served, Recorder>(
  ops: Ops,
  path: KernelPath<CallOf<Ops[number]>, Recorder>,
): RecordingKernel<Recorder> {
  return { ops, ...path };
}

/**
 * The kernels of a family, which do the same kind of work for many operators. Each is bound by saying what work a call comes down to; a text
 * in its place says why there is none.
 */
export const kernelFamily =
  <Work extends object, Recorder>(family: KernelPath<Work, Recorder>) =>
  <const Ops extends Served>(
    ops: Ops,
    workOf: (call: CallOf<Ops[number]>) => Work | string,
  ): RecordingKernel<Recorder> =>
    bindKernel<Ops, Recorder>(ops, {
      accepts(call) {
        const work = workOf(call);
        return typeof work === "string" ? work : family.accepts(work);
      },
      record(call, recorder) {
        const work = workOf(call);
        if (typeof work !== "string") family.record(work, recorder);
      },
    });

/** Kernels by declaration, in the order they are tried. */
export type KernelTable<K extends Kernel> = ReadonlyMap<Op, readonly K[]>;

/** Sorts kernels by the declarations they serve, into a table that may have others; their order stays. */
export function kernelTable<K extends Kernel>(kernels: readonly K[], table: Map<Op, K[]> = new Map()): KernelTable<K> {
  for (const kernel of kernels)
    for (const op of kernel.ops) {
      const others = table.get(op);
      if (others === undefined) table.set(op, [kernel]);
      else others.push(kernel);
    }
  return table;
}

/** The first kernel that accepts the call, or the reasons why there is none. */
export function chooseKernel<K extends Kernel>(
  kernels: KernelTable<K>,
  op: Op,
  call: KernelCall,
): { readonly kernel: K | undefined; readonly reasons: readonly string[] } {
  const reasons = new Set<string>();
  for (const candidate of kernels.get(op) ?? []) {
    const answer = candidate.accepts(call);
    if (answer === true) return { kernel: candidate, reasons: [] };
    reasons.add(answer);
  }
  return { kernel: undefined, reasons: reasons.size === 0 ? ["it has no kernel"] : [...reasons] };
}

/** The call of a node with these operands, by the names of its declaration. At least one output is asked for. */
export function kernelCall(
  node: Callable,
  inputs: readonly (Operand | undefined)[],
  outputs: readonly (Operand | undefined)[],
): KernelCall {
  const { op, label, opset, attrs } = node;
  return {
    label,
    opset,
    attrs,
    inputs: bindParameters(op.inputs, inputs, node, "input"),
    outputs: bindParameters(op.outputs, outputs, node, "output"),
  };
}

/** The first operand or output of a call that a test names. */
export function findOperand({ inputs, outputs }: KernelCall, test: (operand: Operand) => boolean): Operand | undefined {
  for (const group of [inputs, outputs])
    for (const name of Object.keys(group)) {
      const operands = group[name] as Operand | readonly (Operand | undefined)[] | undefined;
      if (operands === undefined) continue;
      if ("view" in operands) {
        if (test(operands)) return operands;
      } else for (const operand of operands) if (operand !== undefined && test(operand)) return operand;
    }
  return undefined;
}

/** True if the output lies where its operand does. */
export const isInPlace = ({ place: past }: Operand, { place: present }: Operand): boolean =>
  past.buffer === present.buffer && past.offset === present.offset;
