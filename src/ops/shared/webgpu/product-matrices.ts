/**
 * Products of many rows where subgroups multiply matrices together: float16 times float16, summed up in float32. A workgroup computes a tile of the
 * result from tiles of both operands in workgroup memory; those that come next are on their way in registers. Where rows are few, subgroups share
 * a tile and divide its k, so that weights are streamed.
 *
 * Places in workgroup memory are written out where they are used, as sums and products of the invocation's index that cannot leave the array: for any
 * other place the compiler adds a bound, and then stores and loads one element at a time.
 */
import type { DeviceTraits, Dispatch, Extension, SubgroupMatrix } from "../../../webgpu-kernels/webgpu-kernel.js";
import { range, registersFor, unrolled } from "../../../webgpu-kernels/wgsl.js";
import type { HalfEights } from "./product-operands.js";
import { gridProduct, type GridProduct, matricesOf } from "./product-grid.js";
import { eachLoad } from "./product-tiles.js";
import type { Tuning } from "../../../webgpu-kernels/tuning.js";

/** A product whose operands are read by eights, as `left` and as `weight`. */
interface MatrixProduct extends Omit<GridProduct, "left" | "right"> {
  readonly left: HalfEights;
  readonly right: HalfEights;
}

/** How a workgroup computes: its tile, `depth` of k at a time, and how its subgroups divide the tile and, in slices, each depth. */
interface MatrixTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly down: number;
  readonly across: number;
  readonly slices: number;
  /** Tiles that are on their way. */
  readonly ahead: number;
  /** Workgroups from which on it is taken. */
  readonly least: number;
}

/** Elements between a tile's rows beyond its depth, so that rows lie in different banks. */
const gap = 8;

/** Rows up to which weights are streamed. */
const mostStreamed = 64;

/** Tried in this order. */
const largeTiles = ({ enoughMatrixTiles }: Tuning["manyRows"]): readonly MatrixTile[] => [
  { rows: 128, columns: 128, depth: 32, down: 2, across: 2, slices: 1, ahead: 2, least: enoughMatrixTiles },
  { rows: 64, columns: 64, depth: 64, down: 2, across: 2, slices: 1, ahead: 1, least: 0 },
  { rows: 64, columns: 64, depth: 32, down: 2, across: 2, slices: 1, ahead: 2, least: 0 },
];

/** What is on its way decides here: the fewer workgroups there are, the more each of them asks for. */
const streamingTiles = (rows: number, { manyStreams, enoughStreams }: Tuning["manyRows"]): readonly MatrixTile[] => [
  { rows, columns: 32, depth: 128, down: 1, across: 2, slices: 2, ahead: 2, least: manyStreams },
  { rows, columns: 32, depth: 256, down: 1, across: 2, slices: 4, ahead: 1, least: enoughStreams },
  { rows, columns: 32, depth: 128, down: 1, across: 2, slices: 4, ahead: 2, least: enoughStreams },
  { rows, columns: 16, depth: 256, down: 1, across: 1, slices: 8, ahead: 1, least: 0 },
  { rows, columns: 16, depth: 128, down: 1, across: 1, slices: 8, ahead: 2, least: 0 },
];

const subgroupsOf = ({ down, across, slices }: MatrixTile): number => down * across * slices;

/** Bytes of workgroup memory that a tile takes: both operands, and a matrix of sums for each subgroup. */
const bytesOf = (tile: MatrixTile, { rows, columns }: SubgroupMatrix): number =>
  2 * (tile.rows + tile.columns) * (tile.depth + gap) + 4 * subgroupsOf(tile) * rows * columns;

/** The first tile that fits and makes enough workgroups. */
function tileFor(
  { m, n }: MatrixProduct,
  matrices: number,
  { subgroupMatrix, workgroupBytes, tuning: { manyRows } }: DeviceTraits,
): MatrixTile | undefined {
  const streamed = Math.ceil(m / subgroupMatrix!.rows) * subgroupMatrix!.rows;
  const fitting = (m <= mostStreamed ? streamingTiles(streamed, manyRows) : largeTiles(manyRows)).filter(
    (tile) => bytesOf(tile, subgroupMatrix!) <= workgroupBytes,
  );
  const countOf = ({ rows, columns }: MatrixTile): number => Math.ceil(m / rows) * Math.ceil(n / columns) * matrices;
  return fitting.find((tile) => countOf(tile) >= tile.least);
}

/** The dispatch of such a product; undefined where the device has no such matrices or the grid is too large. Elements of the output must not share words over rows. */
export function matrixProduct(work: MatrixProduct, device: DeviceTraits): Dispatch | undefined {
  const { m, n } = work;
  const { subgroup, subgroupMatrix } = device;
  if (subgroup === undefined || subgroupMatrix === undefined) return undefined;
  const matrices = matricesOf(work);
  const tile = tileFor(work, matrices, device);
  if (tile === undefined) return undefined;
  return gridProduct(
    work,
    [Math.ceil(n / tile.columns), Math.ceil(m / tile.rows), matrices],
    (starts, store) => matrixCode(tile, subgroupMatrix, subgroup, work, starts, store("sums")),
    device,
    matrixExtensions,
  );
}

/** What shaders need that multiply matrices of float16 in subgroups. */
export const matrixExtensions: readonly Extension[] = ["subgroups", "f16", "chromium_experimental_subgroup_matrix"];

/** The WGSL types of both operands' matrices and of their sums. */
export const matrixTypes = ({ rows, columns, depth }: SubgroupMatrix): Record<"left" | "right" | "sums", string> => ({
  left: `subgroup_matrix_left<f16, ${depth}, ${rows}>`,
  right: `subgroup_matrix_right<f16, ${columns}, ${depth}>`,
  sums: `subgroup_matrix_result<f32, ${columns}, ${rows}>`,
});

/** A side of a tile, as it is brought into workgroup memory: from `front` on, by eights of rows. */
interface Side {
  readonly side: "left" | "weight";
  readonly of: HalfEights;
  /** Rows of the tile's side, where the first lies in its operand, and the number behind the operand's last. */
  readonly size: number;
  readonly front: number;
  readonly start: string;
  readonly first: string;
  readonly last: string;
}

const sidesOf = (tile: MatrixTile, { left, right }: Pick<MatrixProduct, "left" | "right">): readonly Side[] => [
  { side: "left", of: left, size: tile.rows, front: 0, start: "leftStart", first: "firstRow", last: "p.m" },
  {
    side: "weight",
    of: right,
    size: tile.columns,
    front: tile.rows * (tile.depth + gap),
    start: "rightStart",
    first: "firstColumn",
    last: "p.n",
  },
];

/** Both sides' loads from `front` of k on into the registers of a `set`, and those registers to workgroup memory. */
function stagingOf(
  tile: MatrixTile,
  invocations: number,
  sides: readonly Side[],
): Record<"registers" | "put", (set: number) => string> & { readonly load: (set: number, front: string) => string } {
  const { depth } = tile;
  const pitch = depth + gap;
  const eights = depth / 8; // of a row
  const each = (body: (side: Side, index: string, load: number) => string): string =>
    sides
      .map((side) => eachLoad(side.size * eights, invocations, (index, load) => body(side, index, load)))
      .join("\n    ");
  return {
    registers: (set) =>
      sides
        .map(({ side, of, size }) => registersFor(size * eights, invocations, `${side}${set}_`, of.loaded))
        .join(" "),
    load: (set, front) =>
      each(
        ({ side, start, first, last }, at, i) =>
          `${side}${set}_${i} = ${side}Loaded(${start}, min(${first} + ${at} / ${eights}u, ${last} - 1u), ${front} + ${at} % ${eights}u * 8u);`,
      ),
    put: (set) =>
      each(({ side, of, front }, at, i) => {
        const place = `${front}u + ${at} / ${eights}u * ${pitch}u + ${at} % ${eights}u * 8u`;
        return `{ let at = ${place}; let eight = ${of.halves(`${side}${set}_${i}`)}; ${putEight("tiles", "eight")} }`;
      }),
  };
}

/** Eight halves, the words of a vec4u, one by one to `array[at]` and what follows. */
export const putEight = (array: string, words: string): string =>
  ["xy", "zw"]
    .flatMap((pair, half) =>
      range(4).map((i) => `${array}[at + ${4 * half + i}u] = bitcast<vec4<f16>>(${words}.${pair})[${i}];`),
    )
    .join(" ");

/** The matrices that a subgroup has of a tile's rows and columns, one by one. */
interface Shares {
  readonly rows: readonly number[];
  readonly columns: readonly number[];
}

/** A set of tiles in workgroup memory, multiplied: each subgroup's slice of their depth. */
function multiplying(
  { rows, depth, slices }: MatrixTile,
  matrix: SubgroupMatrix,
  { rows: rowsOfC, columns: columnsOfC }: Shares,
): string {
  const pitch = depth + gap;
  const types = matrixTypes(matrix);
  return range(depth / matrix.depth / slices)
    .map((step) => {
      const front = `${step * slices * matrix.depth}u + slice * ${matrix.depth}u`;
      return `{
      ${rowsOfC.map((i) => `let a${i} = subgroupMatrixLoad<${types.left}, row_major>(&tiles, ${front} + (ownRow + ${i * matrix.rows}u) * ${pitch}u, ${pitch}u);`).join("\n      ")}
      ${columnsOfC
        .map(
          (j) => `{
        let b = subgroupMatrixLoad<${types.right}, col_major>(&tiles, ${front} + (ownColumn + ${rows + j * matrix.columns}u) * ${pitch}u, ${pitch}u);
        ${rowsOfC.map((i) => `c${i}_${j} = subgroupMatrixMultiplyAccumulate(a${i}, b, c${i}_${j});`).join("\n        ")}
      }`,
        )
        .join("\n      ")}
    }`;
    })
    .join("\n    ");
}

/** The sums of each subgroup's matrix `i`, `j`: slices added up, finished and stored. */
function finishing(
  tile: MatrixTile,
  matrix: SubgroupMatrix,
  invocations: number,
  store: string,
): (i: number, j: number) => string {
  const { down, across, slices } = tile;
  const size = matrix.rows * matrix.columns;
  const quads = (down * across * size) / 4;
  const wide = matrix.columns / 4; // quads of a matrix's row
  return (i, j) => `
  subgroupMatrixStore<row_major>(&sumsOf, own * ${size}u, c${i}_${j}, ${matrix.columns}u);
  workgroupBarrier();
  for (var round = 0u; round < ${Math.ceil(quads / invocations)}u; round++) {
    let quad = local + round * ${invocations}u;
    let part = quad / ${size / 4}u % ${down * across}u;
    let row = firstRow + part / ${across}u * ${tile.rows / down}u + ${i * matrix.rows}u + quad / ${wide}u % ${matrix.rows}u;
    let column = firstColumn + part % ${across}u * ${tile.columns / across}u + ${j * matrix.columns}u + quad % ${wide}u * 4u;
    var sums = vec4f();
    ${range(slices)
      .map((slice) => {
        const at = `(part * ${slices}u + ${slice}u) * ${size}u + quad % ${size / 4}u * 4u`;
        return `sums += vec4f(${range(4)
          .map((element) => `sumsOf[${at} + ${element}u]`)
          .join(", ")});`;
      })
      .join("\n    ")}
    if (${quads % invocations === 0 ? "" : `quad < ${quads}u && `}row < p.m && column < p.n) {
      ${store}
    }
  }
  workgroupBarrier();`;
}

function matrixCode(
  tile: MatrixTile,
  matrix: SubgroupMatrix,
  lanes: number,
  work: Pick<MatrixProduct, "left" | "right">,
  starts: string,
  store: string,
): string {
  const { rows, columns, depth, down, across, slices, ahead } = tile;
  const subgroups = subgroupsOf(tile);
  const invocations = subgroups * lanes;
  const [ownRows, ownColumns] = [rows / down, columns / across]; // of a subgroup
  const shares = { rows: range(ownRows / matrix.rows), columns: range(ownColumns / matrix.columns) };
  const eachMatrix = (line: (i: number, j: number) => string, between: string): string =>
    shares.rows.flatMap((i) => shares.columns.map((j) => line(i, j))).join(between);
  const { registers, load, put } = stagingOf(tile, invocations, sidesOf(tile, work));
  const multiply = multiplying(tile, matrix, shares);
  return `
var<workgroup> tiles: array<f16, ${(rows + columns) * (depth + gap)}>;
var<workgroup> sumsOf: array<f32, ${subgroups * matrix.rows * matrix.columns}>;
@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32, @builtin(subgroup_id) subgroup: u32,
) {
  let batch = group.z;
  ${starts}
  let firstRow = group.y * ${rows}u;
  let firstColumn = group.x * ${columns}u;
  let own = subgroup % ${subgroups}u;
  let slice = own % ${slices}u;
  let ownRow = own / ${across * slices}u * ${ownRows}u;
  let ownColumn = own / ${slices}u % ${across}u * ${ownColumns}u;
  ${eachMatrix((i, j) => `var c${i}_${j} = ${matrixTypes(matrix).sums}();`, "\n  ")}
  ${unrolled(ahead, registers, " ")}
  ${unrolled(ahead, (set) => load(set, `${set * depth}u`), "\n  ")}
  for (var k = 0u; k < p.k; k += ${depth * ahead}u) {
    ${unrolled(
      ahead,
      (set) => `${set === 0 ? "" : `if (k + ${set * depth}u < p.k) `}{
    ${put(set)}
    workgroupBarrier();
    ${load(set, `k + ${(set + ahead) * depth}u`)}
    ${multiply}
    workgroupBarrier();
    }`,
      "\n    ",
    )}
  }
  ${eachMatrix(finishing(tile, matrix, invocations, store), "")}
}`;
}
