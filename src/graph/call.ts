/**
 * Makes the calls that declarations answer: binds positional operands to parameter names, checks arity and types, runs the
 * shape rule, and runs the reference implementation. Used by inference at load and by the reference backend at run time.
 */
import { type ErrorCode, InsituError, unreachable } from "../base/error.js";
import { mostDimensions } from "../base/limits.js";
import { type ElementType, isElementType, onnxSpelling } from "../tensor/element-type.js";
import { View } from "../tensor/view.js";
import { isKnownShape, shapeText } from "./dim.js";
import type { Fact } from "./fact.js";
import type { CallContext, InferCall, Op, OutputFact, Parameter, Parameters, ReferenceCall } from "./op.js";

/** A node as calls need it: operator, label for messages, opset and attribute values already read. */
export interface Callable {
  readonly op: Op;
  readonly label: string;
  readonly opset: number;
  readonly attrs: Readonly<Record<string, unknown>>;
  /** Which outputs are named; its length is the node's number of outputs. */
  readonly wanted: readonly boolean[];
}

/** Infers a subgraph attribute's output facts. */
type InferBody = (attribute: string, inputs: readonly Fact[]) => readonly Fact[];

/** Runs a subgraph attribute. */
type RunBody = (attribute: string, inputs: readonly View[]) => readonly View[];

/** What a node's declaration alone decides of its calls: asked at every call, found once. */
interface Standing {
  readonly context: CallContext;
  /** The outputs, one a position. */
  readonly outputs: readonly { readonly name: string; readonly parameter: Parameter; readonly index: number }[];
}

const standings = new WeakMap<Callable, Standing>();

/** Throws where a node has more outputs than its operator. */
function standingOf(node: Callable): Standing {
  let standing = standings.get(node);
  if (standing === undefined) {
    bindParameters(node.op.outputs, node.wanted, node, "output");
    standings.set(node, (standing = { context: context(node), outputs: outputPositions(node) }));
  }
  return standing;
}

function context(node: Callable): CallContext {
  const fail = (message: string, code: ErrorCode = "shape-mismatch"): never => {
    throw new InsituError(code, `${node.label}: ${message}`);
  };
  return {
    label: node.label,
    opset: node.opset,
    fail,
    check(condition, message, code) {
      if (!condition) fail(typeof message === "string" ? message : message(), code);
    },
  };
}

/** Names positional operands by a parameter list. A variadic last parameter takes the rest. */
export function bindParameters<V>(
  parameters: Parameters,
  values: readonly (V | undefined)[],
  node: Callable,
  side: "input" | "output",
): Record<string, V | readonly V[] | undefined> {
  const bound: Record<string, V | readonly V[] | undefined> = {};
  const names = Object.keys(parameters);
  const refuse = (message: string): never => {
    throw new InsituError("invalid-graph", `${node.label}: ${message}`);
  };
  names.forEach((name, position) => {
    const parameter = parameters[name];
    if (parameter.arity === "variadic") {
      const rest = values.slice(position);
      if (rest.length < parameter.atLeast)
        refuse(
          `${side} ${name} needs at least ${parameter.atLeast} tensor${parameter.atLeast === 1 ? "" : "s"}, got ${rest.length}`,
        );
      bound[name] = rest as readonly V[];
      if (side === "input" && rest.includes(undefined))
        refuse(`${side} ${name} must not leave out a tensor in the middle`);
      return;
    }
    const value = values[position];
    if (value === undefined && parameter.arity === "single" && side === "input") refuse(`${side} ${name} is missing`);
    bound[name] = value;
  });
  if (parameters[names.at(-1) ?? ""]?.arity !== "variadic" && values.length > names.length) {
    refuse(`takes at most ${names.length} ${side}s, got ${values.length}`);
  }
  return bound;
}

/** The element types behind a parameter's type: a variable's set, or the one named. */
function allowedTypes(op: Op, parameter: Parameter): readonly ElementType[] {
  const declared = op.types[parameter.type];
  if (declared !== undefined) return declared;
  return isElementType(parameter.type)
    ? [parameter.type]
    : unreachable(`${op.name} uses the undeclared type ${parameter.type}`);
}

/** Checks operand types against the declaration and returns what each type variable stands for. */
function bindTypes(node: Callable, inputs: readonly (Fact | undefined)[]): Map<string, ElementType> {
  const { op } = node;
  const bound = new Map<string, ElementType>();
  const names = Object.keys(op.inputs);
  inputs.forEach((fact, position) => {
    if (fact === undefined) return;
    const name = names[Math.min(position, names.length - 1)];
    const parameter = op.inputs[name];
    const allowed = allowedTypes(op, parameter);
    if (!allowed.includes(fact.type)) {
      const list =
        allowed.length > 8
          ? `one of ${allowed.length} types, such as ${allowed.slice(0, 3).join(", ")}`
          : allowed.join(", ");
      throw new InsituError("type-mismatch", `${node.label}: ${name} must be ${list}, got ${onnxSpelling(fact.type)}`);
    }
    if (parameter.heterogeneous || isElementType(parameter.type)) return;
    const before = bound.get(parameter.type);
    if (before !== undefined && before !== fact.type) {
      throw new InsituError(
        "type-mismatch",
        `${node.label}: ${name} must have the type of the other operands of ${parameter.type}, ${onnxSpelling(before)}, got ${onnxSpelling(fact.type)}`,
      );
    }
    bound.set(parameter.type, fact.type);
  });
  return bound;
}

/** Lists output names one a position; a variadic last output takes the rest. */
function outputPositions(node: Callable): { name: string; parameter: Parameter; index: number }[] {
  const names = Object.keys(node.op.outputs);
  return node.wanted.map((_, position) => {
    const name = names[Math.min(position, names.length - 1)];
    return { name, parameter: node.op.outputs[name], index: position - Math.min(position, names.length - 1) };
  });
}

function makeInferCall(
  node: Callable,
  inputs: readonly (Fact | undefined)[],
  inferBody: InferBody,
): InferCall<Parameters, Parameters, unknown> {
  const outputNames = Object.keys(node.op.outputs);
  const { label, opset, fail, check } = standings.get(node)?.context ?? context(node);
  return {
    label,
    opset,
    fail,
    check,
    inputs: bindParameters(node.op.inputs, inputs, node, "input") as InferCall<
      Parameters,
      Parameters,
      unknown
    >["inputs"],
    attrs: node.attrs as InferCall<Parameters, Parameters, unknown>["attrs"],
    wants: (output) => node.wanted[outputNames.indexOf(output)] ?? false,
    outputCount: node.wanted.length,
    // A body may run many times: what one call's operands hold says nothing about the next.
    inferBody: (attribute, given) =>
      inferBody(
        attribute,
        given.map(({ type, shape }) => ({ type, shape })),
      ),
  };
}

/**
 * Applies a node's shape rule: facts of all its outputs, in order. Throws where operands break a rule. `contents: false` leaves out what only
 * the rule for contents tells.
 */
export function inferOutputs(
  node: Callable,
  inputs: readonly (Fact | undefined)[],
  inferBody: InferBody,
  { contents = true }: { readonly contents?: boolean } = {},
): Fact[] {
  const { op } = node;
  const call = makeInferCall(node, inputs, inferBody);
  const { outputs } = standingOf(node);
  const types = bindTypes(node, inputs);
  const results = op.infer(call);
  return outputs.map(({ name, parameter, index }, position) => {
    const result = results[name];
    const fact = (parameter.arity === "variadic" ? (result as readonly OutputFact[] | undefined)?.[index] : result) as
      | OutputFact
      | undefined;
    const type =
      fact?.type ?? types.get(parameter.type) ?? (isElementType(parameter.type) ? parameter.type : undefined);
    if (type === undefined) unreachable(`${node.label}: the shape rule gives output ${name} no type`);
    const allowed = allowedTypes(op, parameter);
    if (!allowed.includes(type)) call.fail(`output ${name} cannot be ${onnxSpelling(type)}`, "type-mismatch");
    if ((fact?.shape?.length ?? 0) > mostDimensions)
      call.fail(`output ${name} would have ${fact!.shape!.length} dimensions; ${mostDimensions} is the most`);
    const shape = fact?.shape?.map((dim) => {
      if (typeof dim === "number" && !(dim >= 0 && Number.isSafeInteger(dim))) {
        call.fail(`output ${name} would have the shape ${shapeText(fact.shape)}`);
      }
      return dim;
    });
    const integers = fact?.integers ?? (contents && position === 0 ? op.integers(call) : undefined);
    return { type, shape, ...(integers === undefined ? {} : { integers }) };
  });
}

/** The steps that a node's reference implementation takes, where it declares that they are more than a few for each element; else 0. */
export function workOf(node: Callable, inputs: readonly (Fact | undefined)[]): number {
  if (node.op.work === undefined) return 0;
  const none = (): never => unreachable(`${node.label}: work must not look into subgraphs`);
  return node.op.work(makeInferCall(node, inputs, none));
}

/** The checks on data that a node declares, with what is known of its operands: each call looks at the data as they are then. */
export function operandChecks(node: Callable, inputs: readonly (Fact | undefined)[]): () => void {
  const { op } = node;
  if (!op.validates) return () => {};
  const none = (): never => unreachable(`${node.label}: validate must not look into subgraphs`);
  const names = Object.keys(op.inputs);
  // Contents of other operands may not be there yet, or not where they can be read.
  const shown = inputs.map((fact, at) =>
    fact === undefined || op.looksAt.includes(names[Math.min(at, names.length - 1)])
      ? fact
      : { type: fact.type, shape: fact.shape },
  );
  const call = makeInferCall(node, shown, none);
  return () => op.validate(call);
}

/** Runs the checks on data that a node declares, once. */
export const validateOperands = (node: Callable, inputs: readonly (Fact | undefined)[]): void =>
  operandChecks(node, inputs)();

/** The call that a node's reference implementation sees. */
function makeReferenceCall(
  node: Callable,
  inputs: readonly (View | undefined)[],
  outputs: (View | undefined)[],
  facts: readonly Fact[],
  runBody: RunBody,
): ReferenceCall<Parameters, Parameters, unknown> {
  const { op } = node;
  const outputNames = Object.keys(op.outputs);
  const place = (output: string, index: number, view: View): View => {
    const position = outputNames.indexOf(output) + index;
    if (node.wanted[position]) outputs[position] = view;
    return view;
  };
  const { label, opset, fail, check } = context(node);
  return {
    label,
    opset,
    fail,
    check,
    inputs: bindParameters(op.inputs, inputs, node, "input") as ReferenceCall<
      Parameters,
      Parameters,
      unknown
    >["inputs"],
    outputs: bindParameters(op.outputs, outputs, node, "output") as ReferenceCall<
      Parameters,
      Parameters,
      unknown
    >["outputs"],
    attrs: node.attrs as ReferenceCall<Parameters, Parameters, unknown>["attrs"],
    allocate(output, shape, { index = 0, type } = {}) {
      const fact = facts[outputNames.indexOf(output) + index];
      return place(
        output,
        index,
        View.allocate(type ?? fact?.type ?? unreachable(`${node.label}: ${output} has no type`), shape),
      );
    },
    assign: (output, view, index = 0) => void place(output, index, view),
    run: runBody,
    wants: (output) => node.wanted[outputNames.indexOf(output)] ?? false,
    random: seededRandom,
  };
}

/** Runs a node's reference implementation on views. `outputs` holds a view for every output whose shape is known beforehand. */
export function callReference(
  node: Callable,
  inputs: readonly (View | undefined)[],
  outputs: (View | undefined)[],
  facts: readonly Fact[],
  runBody: RunBody,
): void {
  // Of a node whose outputs are all left out there is nothing to compute.
  if (!node.wanted.includes(true)) return;
  const call = makeReferenceCall(node, inputs, outputs, facts, runBody);
  try {
    node.op.reference(call);
  } catch (cause) {
    // What engines throw where an array that the reference needs cannot be had.
    if (!(cause instanceof RangeError) || !/allocation|length/.test(cause.message)) throw cause;
    throw new InsituError("out-of-memory", `${node.label}: not enough memory: ${cause.message}`, { cause });
  }
  node.wanted.forEach((wanted, position) => {
    if (wanted && outputs[position] === undefined)
      unreachable(`${node.label}: the reference made no output ${position}`);
  });
}

/** The parts that a call overwrites of those outputs that lie in an operand's buffer, as its operator declares them. */
export function overwrittenParts(
  node: Callable,
  inputs: readonly (View | undefined)[],
  outputs: readonly (View | undefined)[],
  isUpdated: (position: number) => boolean,
): readonly View[] {
  const none = (): never => unreachable(`${node.label}: overwrites must not run subgraphs`);
  const declared = node.op.overwrites(makeReferenceCall(node, inputs, [...outputs], [], none));
  const names = Object.keys(node.op.outputs);
  return outputs.flatMap((view, at) => (view !== undefined && isUpdated(at) ? (declared[names[at]] ?? [view]) : []));
}

/** Allocates what the facts allow and runs the reference implementation: outputs in order, undefined where not wanted. */
export function evaluate(
  node: Callable,
  inputs: readonly (View | undefined)[],
  inputFacts: readonly (Fact | undefined)[],
  inferBody: InferBody,
  runBody: RunBody,
): (View | undefined)[] {
  const facts = inferOutputs(node, inputFacts, inferBody);
  const outputs = facts.map((fact, position) =>
    node.wanted[position] && isKnownShape(fact.shape) ? View.allocate(fact.type, fact.shape) : undefined,
  );
  callReference(node, inputs, outputs, facts, runBody);
  return outputs;
}

/** A generator of uniform numbers in [0, 1): mulberry32. Without a seed, one of the clock's choosing. */
export function seededRandom(seed: number | undefined): () => number {
  let state = (seed === undefined ? Math.floor(Math.random() * 2 ** 32) : Math.floor(seed)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
