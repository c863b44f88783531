/** Feeds, checked against what the model declares, in the order of its inputs. Held inputs come from elsewhere. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { isKnown } from "../graph/dim.js";
import { factText } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import { cloneView } from "../tensor/copy.js";
import { type Placed, sameNumbers } from "../tensor/placed.js";
import { isTensor, type Tensor } from "../tensor/tensor.js";
import { type TensorLike, tensorOf } from "../tensor/tensor-like.js";
import type { View } from "../tensor/view.js";

/** Tensors by input name, insitu's or whatever looks like one. */
export type Feeds = Readonly<Record<string, TensorLike>>;

/**
 * Places by input value: feeds, and defaults of inputs that have one. Throws for what is missing, ill-typed or held; feeds that the model
 * has no input for are let be, as onnxruntime does.
 * `slotOf` tells where a tensor lies that stays on the backend. Symbols that are fed with several sizes go into `differing` where the
 * caller can do with them, and are refused where not.
 */
export function readFeeds(
  graph: Graph,
  known: ReadonlyMap<string, Value>,
  feeds: Feeds,
  held: ReadonlyMap<Value, Placed>,
  mayOmit: ReadonlySet<Value>,
  slotOf: (tensor: unknown) => Placed | undefined,
  differing?: Set<string>,
): Map<Value, Placed> {
  if (typeof feeds !== "object" || feeds === null || Array.isArray(feeds) || isTensor(feeds))
    throw new InsituError(
      "invalid-feed",
      `'feeds' must be an object of tensors by input name, got ${isTensor(feeds) ? "a Tensor" : valueText(feeds)}`,
      { as: "TypeError" },
    );
  const unknown: string[] = [];
  // All are taken before the first is looked at: what stands behind a name, or is a tensor's data, may be a getter that does anything.
  const given = new Map<Value, Tensor>();
  for (const [name, tensor] of Object.entries(feeds)) {
    const value = known.get(name);
    if (value === undefined) {
      unknown.push(name);
      continue;
    }
    if (held.has(value))
      throw new InsituError(
        "invalid-feed",
        `input "${name}" is held by the state and cannot be fed; use state.set("${name}", tensor)`,
      );
    if (tensor !== undefined) given.set(value, tensorOfFeed(name, tensor));
  }
  const symbols = new Map<string, { size: number; input: string }>();
  const views = new Map<Value, Placed>();
  for (const value of graph.inputs) {
    const inState = held.get(value);
    const tensor = given.get(value);
    if (inState === undefined && tensor === undefined) {
      if (value.initializer !== undefined) views.set(value, value.initializer);
      else if (!mayOmit.has(value)) throw new InsituError("invalid-feed", missingText(value, unknown, known));
      continue;
    }
    const view = inState ?? slotOf(tensor) ?? viewOfFeed(value, tensor!);
    checkFeed(value, view, symbols, differing);
    views.set(value, view);
  }
  return views;
}

/** What a feed that takes another's place shows: it must be of the same type and shape. */
export function readReplacement(
  value: Value,
  given: unknown,
  before: Placed | undefined,
  slotOf: (tensor: unknown) => Placed | undefined,
): Placed {
  const tensor = tensorOfFeed(value.name, given);
  const view = slotOf(tensor) ?? viewOfFeed(value, tensor);
  if (before !== undefined && view.type === before.type && sameNumbers(view.shape, before.shape)) return view;
  throw new InsituError(
    "invalid-feed",
    `input "${value.name}" must be ${before === undefined ? "left out, as in the first run" : `${before} as in the first run`} of a series, got ${view}`,
  );
}

/** A feed that is missing may be there under another name. */
function missingText(value: Value, unknown: readonly string[], known: ReadonlyMap<string, Value>): string {
  const missing = `input "${value.name}" (${factText(value.fact!)}) is missing`;
  return unknown.length === 0
    ? missing
    : `${missing}; ${valueText(unknown[0])} is no input of the model; its inputs are ${[...known.keys()].join(", ")}`;
}

function tensorOfFeed(name: string, given: unknown): Tensor {
  const tensor = tensorOf(given, `input "${name}"`);
  if (tensor !== undefined) return tensor;
  throw new InsituError("invalid-feed", `input "${name}" must be a Tensor, got ${valueText(given)}`);
}

/** What a feed shows now. Memory that other threads may write is read once, here. */
function viewOfFeed({ name }: Value, tensor: Tensor): View {
  let view: View;
  try {
    view = tensor.toView();
  } catch (error) {
    if (!(error instanceof InsituError)) throw error;
    throw new InsituError(error.code, `input "${name}": ${error.message}`, { cause: error });
  }
  return isShared(view) ? cloneView(view) : view;
}

const isShared = ({ data }: View): boolean =>
  !Array.isArray(data) && typeof SharedArrayBuffer !== "undefined" && data.buffer instanceof SharedArrayBuffer;

/** The sizes and symbols of an input, as they are compared. */
const declared = new WeakMap<Value, readonly (number | string)[]>();

function declaredDims(value: Value): readonly (number | string)[] | undefined {
  const known = declared.get(value);
  if (known !== undefined || value.fact!.shape === undefined) return known;
  const dims = value.fact!.shape.map((dim) => (isKnown(dim) ? dim : String(dim)));
  declared.set(value, dims);
  return dims;
}

function checkFeed(
  value: Value,
  view: Placed,
  symbols: Map<string, { size: number; input: string }>,
  differing: Set<string> | undefined,
): void {
  if (view.type !== value.fact!.type) throw refusal(value, view, "the element type differs");
  const dims = declaredDims(value);
  if (dims === undefined) return;
  const { shape } = view;
  if (dims.length !== shape.length) throw refusal(value, view, "the rank differs");
  for (let axis = 0; axis < dims.length; axis++) {
    const dim = dims[axis];
    const size = shape[axis];
    if (typeof dim === "number") {
      if (dim !== size) throw refusal(value, view, `dimension ${axis} differs`);
      continue;
    }
    const before = symbols.get(dim);
    if (before === undefined) symbols.set(dim, { size, input: value.name });
    else if (before.size !== size) {
      if (differing === undefined) throw refusal(value, view, `"${dim}" is ${before.size} in input "${before.input}"`);
      differing.add(dim);
    }
  }
}

const refusal = (value: Value, view: Placed, why: string): InsituError =>
  new InsituError("invalid-feed", `input "${value.name}" must be ${factText(value.fact!)}, got ${view}: ${why}`);

/** Concrete inputs in the graph's order. */
export const inOrder = (graph: Graph, inputs: ReadonlyMap<Value, Placed>): Placed[] =>
  graph.inputs.map((value) => inputs.get(value)!);
