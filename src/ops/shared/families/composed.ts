/**
 * Operators that stand for several: a body of declared operators says what one means. Shapes, checks on data and the reference implementation are the
 * body's own, so that a kernel that does all of it at once is compared with what it takes the place of.
 */
import { unreachable } from "../../../base/error.js";
import { type AttributeValue, readAttributes } from "../../../graph/attribute.js";
import { type Callable, callReference, inferOutputs, operandChecks } from "../../../graph/call.js";
import { isKnownShape } from "../../../graph/dim.js";
import { type Fact, factOfView } from "../../../graph/fact.js";
import type { Op, OutputFact } from "../../../graph/op.js";
import { writeIntegers } from "../../../tensor/access.js";
import { View } from "../../../tensor/view.js";

/** An operand of a body's step: a name that the call or an earlier step gives, or a constant. */
type StepOperand = string | View | undefined;

/** One operator of a body. */
export interface BodyStep {
  readonly op: Op;
  readonly opset: number;
  readonly inputs: readonly StepOperand[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, AttributeValue>>;
}

/** A step with the version of its operator that it is declared by. */
export const step = (
  op: Op,
  inputs: readonly StepOperand[],
  outputs: readonly string[],
  attributes: Readonly<Record<string, AttributeValue>> = {},
): BodyStep => ({ op, opset: op.since, inputs, outputs, attributes });

/** A constant list of integers: a shape, or sizes of parts. */
export function integers(...list: readonly number[]): View {
  const view = View.allocate("int64", [list.length]);
  writeIntegers(view, list);
  return view;
}

/** A node as calls need it. */
export function callableOf({ op, opset, outputs, attributes }: BodyStep, label: string): Callable {
  const own = `${label}, ${op.name}`;
  return {
    op,
    label: own,
    opset,
    attrs: readAttributes(op.attrs, new Map(Object.entries(attributes)), own),
    wanted: outputs.map(() => true),
  };
}

const none = (): never => unreachable("a body's step has no subgraphs");

type Given<T> = Readonly<Record<string, T | readonly T[] | undefined>>;

const held = <T>(inputs: Given<T>): Map<string, T> =>
  new Map(Object.entries(inputs).flatMap(([name, value]) => (value === undefined ? [] : [[name, value as T]])));

type Visit = (node: Callable, operands: readonly (Fact | undefined)[]) => void;

/** Facts of everything that a body makes; `visit` sees each step before its outputs are inferred. */
function factsOf(body: readonly BodyStep[], label: string, inputs: Given<Fact>, visit?: Visit): Map<string, Fact> {
  const facts = held(inputs);
  for (const each of body) {
    const node = callableOf(each, label);
    const operands = each.inputs.map((name) =>
      name instanceof View ? factOfView(name) : name === undefined ? undefined : facts.get(name),
    );
    visit?.(node, operands);
    inferOutputs(node, operands, none).forEach((fact, at) => facts.set(each.outputs[at], fact));
  }
  return facts;
}

/** Types and shapes of the outputs that are named. */
export function inferComposed<Name extends string>(
  body: readonly BodyStep[],
  label: string,
  inputs: Given<Fact>,
  outputs: readonly Name[],
): Partial<Record<Name, OutputFact>> {
  const facts = factsOf(body, label, inputs);
  const result: Partial<Record<Name, OutputFact>> = {};
  for (const name of outputs) {
    const { type, shape } = facts.get(name) ?? unreachable(`${label}: its body makes no ${name}`);
    result[name] = { type, shape };
  }
  return result;
}

/** A call that is asked to look at its data again and again. */
interface CheckedCall {
  readonly label: string;
  readonly inputs: Given<Fact>;
}

/** What a call's steps look at, found once: a run makes these checks for every token. */
const checksOfCalls = new WeakMap<CheckedCall, readonly (() => void)[]>();

/** Makes the checks on data that the steps of a body declare, on the data as they are now. */
export function validateComposed<Call extends CheckedCall>(
  call: Call,
  bodyOf: (call: Call) => readonly BodyStep[],
): void {
  let checks = checksOfCalls.get(call);
  if (checks === undefined) {
    const found: (() => void)[] = [];
    factsOf(bodyOf(call), call.label, call.inputs, (node, operands) => {
      if (node.op.validates) found.push(operandChecks(node, operands));
    });
    checks = found;
    checksOfCalls.set(call, checks);
  }
  for (const check of checks) check();
}

/** Runs a body's reference implementations one after the other; outputs that the call has are written where they lie. */
export function runComposed(body: readonly BodyStep[], label: string, inputs: Given<View>, outputs: Given<View>): void {
  const views = held(inputs);
  const targets = held(outputs);
  for (const each of body) {
    const node = callableOf(each, label);
    const operands = each.inputs.map((name) => (typeof name === "string" ? views.get(name) : name));
    const facts = inferOutputs(
      node,
      operands.map((view) => view && factOfView(view)),
      none,
    );
    const made = facts.map(({ type, shape }, at) => {
      const target = targets.get(each.outputs[at]);
      if (target !== undefined) return target;
      return isKnownShape(shape) ? View.allocate(type, shape) : unreachable(`${node.label} has no shape`);
    });
    callReference(node, operands, made, facts, none);
    made.forEach((view, at) => views.set(each.outputs[at], view));
  }
}
