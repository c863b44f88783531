/** Calls one declared operator on tensors: what the functions of `ops` are made of. No graph, no session, no plan. */
import { checkObject, objectOf } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import { valueText } from "#insitu/base/value-text.js";
import { type Attribute, type AttributeValue, readAttributes } from "#insitu/graph/attribute.js";
import { newestOpset } from "#insitu/graph/build.js";
import { type Callable, callReference, inferOutputs } from "#insitu/graph/call.js";
import { isKnownShape } from "#insitu/graph/dim.js";
import { factOfView } from "#insitu/graph/fact.js";
import type { Op } from "#insitu/graph/op.js";
import { operators } from "#insitu/ops/index.js";
import { isElementType, traitsOf } from "#insitu/tensor/element-type.js";
import { cloneView } from "#insitu/tensor/copy.js";
import { isTensor, Tensor } from "#insitu/tensor/tensor.js";
import { sharesBytes, View } from "#insitu/tensor/view.js";

/** An attribute as callers write it: names in camel case or as ONNX spells them, element types by name. */
export type OptionValue = number | bigint | boolean | string | readonly number[] | readonly string[] | undefined;

/** Options beside the attributes. */
export interface CallOptions {
  /** Write into the updated tensors' own data instead of copies. */
  readonly inPlace?: boolean;
  /** The opset whose meaning is asked for; the newest unless told. */
  readonly opset?: number;
}

/** `qNumHeads` → `q_num_heads`; ONNX's own spelling stays. */
const onnxName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function attributeValue(attribute: Attribute<unknown>, value: NonNullable<OptionValue>): AttributeValue {
  switch (attribute.kind) {
    case "int":
      if (typeof value === "string" && isElementType(value))
        return { kind: "int", value: BigInt(traitsOf(value).code) };
      if (typeof value === "boolean" || typeof value === "bigint" || Number.isInteger(value))
        return { kind: "int", value: BigInt(value as number) };
      break;
    case "float":
      if (typeof value === "number") return { kind: "float", value };
      break;
    case "string":
      if (typeof value === "string") return { kind: "string", value };
      break;
    case "ints":
      if (Array.isArray(value) && value.every(Number.isInteger))
        return { kind: "ints", value: (value as number[]).map(BigInt) };
      break;
    case "floats":
      if (Array.isArray(value)) return { kind: "floats", value: value as number[] };
      break;
    case "strings":
      if (Array.isArray(value)) return { kind: "strings", value: value as string[] };
      break;
    default:
  }
  return { kind: "other", what: typeof value };
}

function readOptions(
  op: Op,
  options: Readonly<Record<string, OptionValue>>,
  label: string,
): Readonly<Record<string, unknown>> {
  const values = new Map<string, AttributeValue>();
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || name === "inPlace" || name === "opset") continue;
    const known = onnxName(name);
    const attribute = op.attrs[known];
    values.set(
      known,
      attribute === undefined ? { kind: "other", what: typeof value } : attributeValue(attribute, value),
    );
  }
  return readAttributes(op.attrs, values, label);
}

/** The options of a function, once both its arguments are known to be objects. */
export function readArguments<T extends object>(label: string, inputs: unknown, options: T | undefined): Partial<T> {
  checkObject(`${label}: its inputs`, inputs);
  return objectOf(`${label}: its options`, options);
}

/** Throws unless an operand is a tensor or left out. */
export function checkOperand(label: string, name: string, tensor: unknown): void {
  if (tensor !== undefined && !isTensor(tensor))
    throw new InsituError("invalid-argument", `${label}: ${name} must be a Tensor, got ${valueText(tensor)}`);
}

/** What a call of an operator is. */
interface OperatorCall {
  readonly name: string;
  readonly domain?: string;
  /** The function's name, which begins its messages. */
  readonly label: string;
  /** Operands by ONNX name; undefined ones are left out. */
  readonly inputs: Readonly<Record<string, Tensor | undefined>>;
  /** The outputs that are asked for, by ONNX name. */
  readonly outputs: readonly string[];
  readonly options: CallOptions & Readonly<Record<string, OptionValue>>;
}

/** The operator of a call with its attributes read: what does not depend on operands, for callers that call it again. */
export function prepareCall({
  name,
  domain = "",
  label,
  outputs,
  options,
}: Pick<OperatorCall, "name" | "domain" | "label" | "outputs" | "options">): Callable {
  const { opset = domain === "" ? newestOpset : 1 } = options;
  if (!Number.isSafeInteger(opset) || opset < 1)
    throw new InsituError(
      "invalid-argument",
      `${label}: opset must be a whole number of at least 1, got ${valueText(opset)}`,
    );
  const op = operators.find(domain, name, opset);
  if (op === undefined) throw operators.missing(domain, name, opset, label);
  const outputNames = Object.keys(op.outputs);
  const last = Math.max(...outputs.map((output) => outputNames.indexOf(output)));
  const wanted = outputNames.slice(0, last + 1).map((output) => outputs.includes(output));
  return { op, label, opset, attrs: readOptions(op, options, label), wanted };
}

/** Calls an operator; the outputs by ONNX name. With `inPlace`, an output that updates an operand is that very tensor. */
export function callOperator(call: OperatorCall): Record<string, Tensor> {
  const { name, label, inputs, options } = call;
  const node = prepareCall(call);
  const { op, opset, wanted } = node;
  const names = Object.keys(op.inputs);
  for (const [input, tensor] of Object.entries(inputs)) {
    checkOperand(label, input, tensor);
    if (tensor !== undefined && !names.includes(input))
      throw new InsituError(
        "invalid-argument",
        `${label}: ${name}-${op.since} of opset ${opset} has no input ${input}`,
      );
  }
  const outputNames = Object.keys(op.outputs);
  const operands = names.map((input) => inputs[input]);
  while (operands.length > 0 && operands.at(-1) === undefined) operands.pop();
  const none = (): never => {
    throw new InsituError("internal", `${label} has no subgraphs`);
  };
  const views = operands.map((tensor) => tensor?.toView());
  const facts = inferOutputs(
    node,
    views.map((view) => view && factOfView(view)),
    none,
  );
  const updated = new Map<string, Tensor>();
  const placed = facts.map((fact, position): View | undefined => {
    if (!wanted[position] || !isKnownShape(fact.shape)) return undefined;
    const effect = op.effects[outputNames[position]];
    const source = options.inPlace === true && effect?.kind === "update" ? inputs[effect.of] : undefined;
    if (source === undefined) return View.allocate(fact.type, fact.shape);
    if (effect?.kind === "update" && effect.grows !== undefined) {
      throw new InsituError(
        "invalid-argument",
        `${label}: ${outputNames[position]} is longer than ${effect.of} and cannot be written in place; use tensorScatter on a cache with room and pass its valid length`,
      );
    }
    updated.set(outputNames[position], source);
    return source.toView();
  });
  callReference(node, separated(node, views, placed, updated), placed, facts, none);
  const results: Record<string, Tensor> = {};
  outputNames.forEach((output, position) => {
    const view = placed[position];
    if (view !== undefined) results[output] = updated.get(output) ?? Tensor.fromView(view);
  });
  return results;
}

/** Operands that lie in memory that the call writes, but for the one that an output updates, are copied first. */
function separated(
  { op }: Callable,
  views: readonly (View | undefined)[],
  placed: readonly (View | undefined)[],
  updated: ReadonlyMap<string, Tensor>,
): readonly (View | undefined)[] {
  if (updated.size === 0) return views;
  const [inputs, outputs] = [Object.keys(op.inputs), Object.keys(op.outputs)];
  return views.map((view, at) => {
    const written = placed.some((output, position) => {
      if (view === undefined || output === undefined || !updated.has(outputs[position])) return false;
      const effect = op.effects[outputs[position]];
      return !(effect?.kind === "update" && effect.of === inputs[at]) && sharesBytes(view, output);
    });
    return written ? cloneView(view!) : view;
  });
}
