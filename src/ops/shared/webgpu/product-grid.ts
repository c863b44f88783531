/**
 * The grid of a product of many rows: matrices of a batch, where its operands begin in each, and how sums are finished and stored. Slices, tiles and
 * matrices of subgroups bring the rest of the shader.
 */
import type { Operand } from "../../../graph/kernel.js";
import { dispatchOf, type ShaderPart, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Extension } from "../../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType, listed, pack, packing, perWord, range, unrolled } from "../../../webgpu-kernels/wgsl.js";

/** A dimension of a batch: its size, and from one matrix to the next in both operands. */
export interface BatchDimension {
  readonly size: number;
  readonly left: number;
  readonly right: number;
}

/** A product; its operands are parts that the shader reads them by. */
export interface GridProduct {
  readonly name: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch: readonly BatchDimension[];
  readonly left: ShaderPart;
  readonly right: ShaderPart;
  /** Has `finish(batch, row, column, sum) -> f32`. */
  readonly finish: ShaderPart;
  readonly output: Operand;
}

/** The places of a batch's matrices, as WGSL: `leftStart` and `rightStart` of matrix `batch`. */
export const batchStarts = (batch: readonly BatchDimension[]): string => `
  var leftStart = 0u;
  var rightStart = 0u;
  ${batch.length === 0 ? "" : "var rest = batch;"}
  ${range(batch.length)
    .toReversed()
    .map(
      (axis) =>
        `{ let c = rest % p.batch${axis}; rest /= p.batch${axis}; leftStart += c * p.leftBatch${axis}; rightStart += c * p.rightBatch${axis}; }`,
    )
    .join("\n  ")}`;

/** The parameters that `batchStarts` reads. */
export const batchParameters = (batch: readonly BatchDimension[]): Readonly<Record<string, number>> =>
  ({
    ...listed(
      "batch",
      batch.map(({ size }) => size),
    ),
    ...listed(
      "leftBatch",
      batch.map(({ left }) => left),
    ),
    ...listed(
      "rightBatch",
      batch.map(({ right }) => right),
    ),
  }) as Record<string, number>;

/** How four sums of a row are finished and stored, at `batch`, `row` and `column`: a statement of WGSL, and what it writes. */
function storedSums(output: Operand, n: number, sums: string): { readonly result: Variable; readonly store: string } {
  const { type, place } = output;
  if (!isFloatType(type)) throw new RangeError(`${type} is no type of products`);
  const byFours = n % 4 === 0 && place.offset % 4 === 0;
  const each = perWord(type);
  const result = variable("result", output, { writes: true, element: byFours ? "four" : "u32" });
  const value = (at: number): string => `finish(batch, row, min(column + ${at}u, p.n - 1u), ${sums}[${at}u])`;
  const words = (): string =>
    unrolled(
      4 / each,
      (word) =>
        `if (column + ${word * each}u < p.n) { result[(at + ${word * each}u) / ${each}u] = ${pack(
          type,
          range(each).map((part) => value(word * each + part)),
        )}; }`,
      "\n      ",
    );
  const quad = (): string => `let values = vec4f(${unrolled(4, value, ", ")});
      ${result.storeFour("at >> 2u", "values")}`;
  return {
    result,
    store: `let at = p.resultOffset + (batch * p.m + row) * p.n + column;
      ${byFours ? quad() : words()}`,
  };
}

/** Matrices of a batch. */
export const matricesOf = ({ batch }: Pick<GridProduct, "batch">): number =>
  batch.reduce((product, { size }) => product * size, 1);

/** The dispatch of a product over a grid: `main` is written from what finds `leftStart` and `rightStart`, and from what stores four sums. */
export function gridProduct(
  work: GridProduct,
  workgroups: Dispatch["workgroups"],
  main: (starts: string, store: (sums: string) => string) => string,
  { mostWorkgroups }: DeviceTraits,
  extensions: readonly Extension[] = [],
): Dispatch | undefined {
  const { name, m, n, k, batch, left, right, finish, output } = work;
  if (!isFloatType(output.type) || workgroups.some((count) => count !== undefined && count > mostWorkgroups))
    return undefined;
  const { result } = storedSums(output, n, "sums");
  return dispatchOf({
    name,
    parts: [packing, left, right, finish, result],
    extensions,
    code: main(batchStarts(batch), (sums) => storedSums(output, n, sums).store),
    parameters: { m, n, k, resultOffset: output.place.offset, ...batchParameters(batch) },
    workgroups,
  });
}
