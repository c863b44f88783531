/**
 * Products of many rows: a workgroup computes a tile of the result, each invocation a square of it in registers. Tiles of both operands lie in
 * workgroup memory, k by k; the next ones are loaded while these are multiplied.
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

export interface TileProduct {
  readonly name: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch: readonly BatchDimension[];
  /** Has `leftQuad`. */
  readonly left: ShaderPart;
  /** Has `weightQuad`. */
  readonly right: ShaderPart;
  /** Has `finish(batch, row, column, sum) -> f32`. */
  readonly finish: ShaderPart;
  readonly output: Operand;
}

/** A tile: rows and columns alike, `quads` squares of four by four an invocation in each direction, `depth` of k at a time. */
interface Tile {
  readonly edge: number;
  readonly quads: 1 | 2;
  readonly depth: number;
}

/** Each invocation loads one square of four by four, half of them of the left operand: edge · depth / 8 is the number of invocations. */
const tiles: readonly Tile[] = [
  { edge: 128, quads: 2, depth: 16 },
  { edge: 64, quads: 1, depth: 32 },
  { edge: 32, quads: 1, depth: 16 },
];

const countOf = ({ m, n }: { readonly m: number; readonly n: number }, edge: number, batch: number): number =>
  Math.ceil(m / edge) * Math.ceil(n / edge) * batch;

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
export const matricesOf = ({ batch }: Pick<TileProduct, "batch">): number =>
  batch.reduce((product, { size }) => product * size, 1);

/** The dispatch of a product over a grid: `main` is written from what finds `leftStart` and `rightStart`, and from what stores four sums. */
export function gridProduct(
  work: TileProduct,
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

/** The dispatch of such a product; undefined where the grid is too large. Elements of the output must not share words over rows. */
export function tileProduct(work: TileProduct, device: DeviceTraits): Dispatch | undefined {
  const { m, n } = work;
  const matrices = matricesOf(work);
  const { enoughTiles } = device.tuning.manyRows;
  const tile = tiles.find(({ edge }) => countOf(work, edge, matrices) >= enoughTiles) ?? tiles.at(-1)!;
  const { edge, quads, depth } = tile;
  const workgroups = [Math.ceil(n / edge), Math.ceil(m / edge), matrices] as const;
  const threads = (edge * depth) / 8;
  const wide = edge / 4; // vectors of a tile for one k
  const side = wide / quads; // invocations along an edge
  const along = range(quads);
  const four = range(4);
  const stores = (store: (sums: string) => string): readonly string[] =>
    along.flatMap((row) =>
      four.flatMap((line) =>
        along.map(
          (column) => `{
    let row = group.y * ${edge}u + ${row * side * 4}u + y * 4u + ${line}u;
    let column = group.x * ${edge}u + ${column * side * 4}u + x * 4u;
    if (row < p.m && column < p.n) {
      ${store(`c${row}_${column}_${line}`)}
    }
  }`,
        ),
      ),
    );
  const code = (starts: string, store: (sums: string) => string): string => `
var<workgroup> leftTile: array<vec4f, ${depth * wide}>;
var<workgroup> rightTile: array<vec4f, ${depth * wide}>;
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let batch = group.z;
  ${starts}
  let isLeft = local < ${threads / 2}u;
  let mine = local % ${threads / 2}u;
  let alongK = (mine % ${depth / 4}u) * 4u;
  let square = mine / ${depth / 4}u;
  let firstRow = select(group.x, group.y, isLeft) * ${edge}u + square * 4u;
  let lastRow = select(p.n, p.m, isLeft) - 1u;
  let x = local % ${side}u;
  let y = local / ${side}u;
  ${along.flatMap((row) => along.flatMap((column) => four.map((line) => `var c${row}_${column}_${line} = vec4f();`))).join(" ")}
  var next: mat4x4f;
  if (isLeft) { next = leftSquare(leftStart, firstRow, lastRow, alongK); } else { next = rightSquare(rightStart, firstRow, lastRow, alongK); }
  for (var start = 0u; start < p.k; start += ${depth}u) {
    let turned = transpose(next);
    if (isLeft) {
      ${four.map((at) => `leftTile[(alongK + ${at}u) * ${wide}u + square] = turned[${at}];`).join(" ")}
    } else {
      ${four.map((at) => `rightTile[(alongK + ${at}u) * ${wide}u + square] = turned[${at}];`).join(" ")}
    }
    workgroupBarrier();
    let k = start + ${depth}u + alongK;
    if (isLeft) { next = leftSquare(leftStart, firstRow, lastRow, k); } else { next = rightSquare(rightStart, firstRow, lastRow, k); }
    for (var at = 0u; at < ${depth}u; at++) {
      ${along.map((row) => `let a${row} = leftTile[at * ${wide}u + ${row * side}u + y];`).join(" ")}
      ${along.map((column) => `let b${column} = rightTile[at * ${wide}u + ${column * side}u + x];`).join(" ")}
      ${along
        .flatMap((row) =>
          along.flatMap((column) => four.map((line) => `c${row}_${column}_${line} += a${row}[${line}] * b${column};`)),
        )
        .join("\n      ")}
    }
    workgroupBarrier();
  }
  ${stores(store).join("\n  ")}
}
fn leftSquare(start: u32, row: u32, last: u32, k: u32) -> mat4x4f {
  return mat4x4f(${four.map((at) => `leftQuad(start, min(row + ${at}u, last), k)`).join(", ")});
}
fn rightSquare(start: u32, row: u32, last: u32, k: u32) -> mat4x4f {
  return mat4x4f(${four.map((at) => `weightQuad(start, min(row + ${at}u, last), k)`).join(", ")});
}`;
  return gridProduct(work, workgroups, code, device);
}
