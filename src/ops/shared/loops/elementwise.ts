/**
 * The loops behind the element-wise operators: one, two or many operands of any layout, broadcast to the output.
 * Every element is read before the one at the same place is written, so the output may take over an operand's buffer, and
 * nothing of the operands' size is allocated. Knows no operator; the functions that are applied are given.
 */
import { type BigInts, isWide, numberReader, numberWriter } from "../../../tensor/access.js";
import { forEachIndex, type View } from "../../../tensor/view.js";

/** What to do with an element: as a number, and as a bigint where 64-bit integers must stay exact. */
export interface Unary {
  readonly number: (x: number) => number;
  readonly bigint?: ((x: bigint) => bigint) | undefined;
}

/** What to do with two elements: as numbers, and as bigints where 64-bit integers must stay exact. */
export interface Binary {
  readonly number: (x: number, y: number) => number;
  readonly bigint?: ((x: bigint, y: bigint) => bigint) | undefined;
}

/** Calls `visit` for every position of the shape, row-major, with the storage index of each operand's element there. */
export function forEachTogether(
  shape: readonly number[],
  operands: readonly View[],
  visit: (position: number, indices: readonly number[]) => void,
): void {
  const views = operands.map((operand) => operand.broadcastTo(shape));
  const indices = views.map((view) => view.offset);
  const counter = new Array<number>(shape.length).fill(0);
  if (shape.includes(0)) return;
  for (let position = 0, axis = 0; axis >= 0; position++) {
    visit(position, indices);
    for (axis = shape.length - 1; axis >= 0; axis--) {
      for (let k = 0; k < views.length; k++) indices[k] += views[k].strides[axis];
      if (++counter[axis] < shape[axis]) break;
      for (let k = 0; k < views.length; k++) indices[k] -= views[k].strides[axis] * shape[axis];
      counter[axis] = 0;
    }
  }
}

/** A function that reads the element at a storage index of an integer or float view as a number; 64-bit integers are rounded. */
export function anyNumberReader(view: View): (index: number) => number {
  if (!isWide(view.type)) return numberReader(view);
  const source = view.data as BigInts;
  return (index) => Number(source[index]);
}

/** y = f(x), element by element. Without a bigint form, 64-bit integers go through float64. */
export function mapElements(x: View, y: View, { number, bigint }: Unary): void {
  if (isWide(x.type) && isWide(y.type) && bigint !== undefined) {
    const source = x.data as BigInts;
    const target = y.data as BigInts;
    return forEachIndex(x, (index, position) => (target[y.offset + position] = bigint(source[index])));
  }
  const read = anyNumberReader(x);
  const write = numberWriter(y);
  forEachIndex(x, (index, position) => write(y.offset + position, number(read(index))));
}

/** out = f(a, b), element by element, both broadcast to the output's shape. */
export function zipElements(a: View, b: View, out: View, f: Binary): void {
  foldElements([a, b], out, f);
}

/** Folds any number of operands, each broadcast to the output's shape, into it: finish(f(f(a, b), c)). */
export function foldElements(
  operands: readonly View[],
  out: View,
  { number, bigint }: Binary,
  finish?: (x: number) => number,
): void {
  const count = operands.length;
  if (isWide(out.type) && bigint !== undefined) {
    const sources = operands.map((operand) => operand.data as BigInts);
    const target = out.data as BigInts;
    return forEachTogether(out.shape, operands, (position, indices) => {
      let value = sources[0][indices[0]];
      for (let k = 1; k < count; k++) value = bigint(value, sources[k][indices[k]]);
      target[out.offset + position] = value;
    });
  }
  const reads = operands.map(anyNumberReader);
  const write = numberWriter(out);
  forEachTogether(out.shape, operands, (position, indices) => {
    let value = reads[0](indices[0]);
    for (let k = 1; k < count; k++) value = number(value, reads[k](indices[k]));
    write(out.offset + position, finish === undefined ? value : finish(value));
  });
}

/** Writes whether `test` holds of a and b, broadcast to the bool output. Elements are numbers, bigints or strings. */
export function testElements(
  a: View,
  b: View,
  out: View,
  test: (x: number | bigint | string, y: number | bigint | string) => boolean,
): void {
  const [left, right] = [a, b].map(comparableReader);
  const target = out.data as Uint8Array;
  forEachTogether(
    out.shape,
    [a, b],
    (position, [i, j]) => (target[out.offset + position] = test(left(i), right(j)) ? 1 : 0),
  );
}

function comparableReader(view: View): (index: number) => number | bigint | string {
  if (view.type !== "string" && !isWide(view.type)) return numberReader(view);
  const source = view.data as BigInts | string[];
  return (index) => source[index];
}
