/** What If, Loop and Scan have in common: facts without contents, and outputs that share no bytes with what a body returns. */
import { type Dim, isKnown, sameDim, type Shape, symbol, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { readBigInts, readNumbers } from "../../tensor/access.js";
import { copyView } from "../../tensor/copy.js";
import type { ElementType } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";

/** What is known of a value that changes from run to run: type and shape, no contents. */
export const withoutContents = ({ type, shape }: Fact): Fact => ({ type, shape });

/** The shape that stands for both: where they differ, a dimension that nothing is known about. */
export function joinShapes(a: Shape | undefined, b: Shape | undefined): Shape | undefined {
  if (a === undefined || b === undefined || a.length !== b.length) return undefined;
  return a.map((dim, axis) => (sameDim(dim, b[axis]) ? dim : unknownDim()));
}

/** A dimension of its own name, which no declaration inside the body replaces. */
export const namedDim = (): Dim => symbol(`body${String(unknownDim())}`);

/** The dimensions that are not known in numbers replaced by 0: what is left of them when there is nothing to stack. */
export const emptied = (shape: Shape): Shape => shape.map((dim) => (isKnown(dim) ? dim : 0));

/** The truth of a bool tensor that must hold one element. */
export function truthOf(call: CallContext, name: string, view: View): boolean {
  call.check(view.type === "bool" && view.size === 1, () => `${name} must be one bool, got ${view}`);
  return readNumbers(view)[0] !== 0;
}

/** A scalar int64. */
export const scalarInt64 = (value: number): View => new View("int64", [], BigInt64Array.of(BigInt(value)));

/** The number in an int64 tensor that holds one element; past 2^53 the nearest. */
export const numberIn = (view: View): number => Number(readBigInts(view)[0]);

/** Fails unless the body returns at least as many values as the node needs. */
export function checkReturned(call: CallContext, body: string, returned: number, needed: number): void {
  call.check(
    returned >= needed,
    () => `${body} must return at least ${needed} values, got ${returned}`,
    "invalid-graph",
  );
}

/** The means by which a reference hands out variadic outputs. */
interface Outputs {
  /** Views that are there already; undefined where the shape was not known or the output is not asked for. */
  readonly given: readonly (View | undefined)[];
  /** Makes the output at `index`, of the type that the shape rule found where none is given. */
  allocate(shape: readonly number[], index: number, type?: ElementType): View;
}

/** The outputs of a call whose only output parameter, variadic, is `name`. */
export function outputsOf<N extends string>(
  call: {
    readonly outputs: { readonly [K in N]: readonly View[] };
    allocate(output: N, shape: readonly number[], options: { index: number; type?: ElementType }): View;
  },
  name: N,
): Outputs {
  return {
    given: call.outputs[name],
    allocate: (shape, index, type) => call.allocate(name, shape, { index, ...(type && { type }) }),
  };
}

const sameNumbers = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((dim, axis) => dim === b[axis]);

/** The output at `index`, in the shape that it turned out to have. */
export function outputOf(outputs: Outputs, index: number, type: ElementType, shape: readonly number[]): View {
  const output = outputs.given[index];
  return output !== undefined && output.type === type && sameNumbers(output.shape, shape)
    ? output
    : outputs.allocate(shape, index, type);
}

/** Copies a value to the output at `index`, if the node has it: a body may return bytes of the graph around it, which live shorter. */
export function handOut(outputs: Outputs, index: number, value: View): void {
  if (index < outputs.given.length) copyView(value, outputOf(outputs, index, value.type, value.shape));
}

/** Writes elements one after another along a new axis. Of none, the shape rule has made the empty output where it could. */
export function stackInto(outputs: Outputs, index: number, elements: readonly View[], axisGiven = 0): void {
  if (elements.length === 0) {
    if (outputs.given[index] === undefined) outputs.allocate([0], index);
    return;
  }
  const [{ type, shape }] = elements;
  const axis = axisGiven < 0 ? axisGiven + shape.length + 1 : axisGiven;
  const output = outputOf(outputs, index, type, shape.toSpliced(axis, 0, elements.length));
  elements.forEach((element, at) => copyView(element, elementAt(output, axis, at)));
}

/** The view without the dimension at `axis`, at one place of it. */
export function elementAt(view: View, axis: number, at: number): View {
  return new View(
    view.type,
    view.shape.toSpliced(axis, 1),
    view.data,
    view.offset + at * view.strides[axis],
    view.strides.toSpliced(axis, 1),
  );
}

/** Fails where what one run of a body yields differs from what the first run did. */
export function checkSameElement(call: CallContext, name: string, first: View, element: View): void {
  call.check(
    first.type === element.type && sameNumbers(first.shape, element.shape),
    () => `${name} must keep its type and shape from iteration to iteration, got ${first} and ${element}`,
  );
}
