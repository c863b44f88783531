/**
 * Products of many rows where subgroups multiply matrices together: float16 times float16, summed up in float32. A workgroup computes a tile of the
 * result from tiles of both operands in workgroup memory; those that come next are on their way in registers. Where rows are few, subgroups share
 * a tile and divide its k, so that weights are streamed.
 *
 * Places in workgroup memory are written out where they are used, as sums and products of the invocation's index that cannot leave the array: for any
 * other place the compiler adds a bound, and then stores and loads one element at a time.
 */
import type { DeviceTraits, Dispatch, Extension, SubgroupMatrix } from "../../../webgpu-kernels/webgpu-kernel.js";
import { range } from "../../../webgpu-kernels/wgsl.js";
import type { HalfEights } from "./product-operands.js";
import { gridProduct, type GridProduct, matricesOf } from "./product-grid.js";
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

function matrixCode(
  tile: MatrixTile,
  matrix: SubgroupMatrix,
  lanes: number,
  { left, right }: Pick<MatrixProduct, "left" | "right">,
  starts: string,
  store: string,
): string {
  const { rows, columns, depth, down, across, slices, ahead } = tile;
  const subgroups = subgroupsOf(tile);
  const invocations = subgroups * lanes;
  const pitch = depth + gap;
  const eights = depth / 8; // of a row
  const types = matrixTypes(matrix);
  const [ownRows, ownColumns] = [rows / down, columns / across]; // of a subgroup
  const [rowsOfC, columnsOfC] = [range(ownRows / matrix.rows), range(ownColumns / matrix.columns)];
  const loads = { left: Math.ceil((rows * eights) / invocations), right: Math.ceil((columns * eights) / invocations) };
  const sides = [
    {
      side: "left",
      of: left,
      count: loads.left,
      size: rows,
      front: 0,
      start: "leftStart",
      first: "firstRow",
      last: "p.m",
    },
    {
      side: "weight",
      of: right,
      count: loads.right,
      size: columns,
      front: rows * pitch,
      start: "rightStart",
      first: "firstColumn",
      last: "p.n",
    },
  ] as const;
  const each = (body: (side: (typeof sides)[number], at: string, load: number) => string): string =>
    sides
      .flatMap((side) =>
        range(side.count).map((load) => {
          const at = load === 0 ? "local" : `(local + ${load * invocations}u)`;
          const whole = (load + 1) * invocations <= side.size * eights;
          const line = body(side, at, load);
          return whole ? line : `if (${at} < ${side.size * eights}u) { ${line} }`;
        }),
      )
      .join("\n    ");
  const load = (set: number, front: string): string =>
    each(
      ({ side, start, first, last }, at, i) =>
        `${side}${set}_${i} = ${side}Loaded(${start}, min(${first} + ${at} / ${eights}u, ${last} - 1u), ${front} + ${at} % ${eights}u * 8u);`,
    );
  const put = (set: number): string =>
    each(({ side, of, front }, at, i) => {
      const place = `${front}u + ${at} / ${eights}u * ${pitch}u + ${at} % ${eights}u * 8u`;
      const parts = ["xy", "zw"].map((words, half) =>
        range(4)
          .map((part) => `tiles[at + ${4 * half + part}u] = bitcast<vec4<f16>>(eight.${words})[${part}];`)
          .join(" "),
      );
      return `{ let at = ${place}; let eight = ${of.halves(`${side}${set}_${i}`)}; ${parts.join(" ")} }`;
    });
  const multiply = range(depth / matrix.depth / slices)
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
  const size = matrix.rows * matrix.columns;
  const quads = (down * across * size) / 4;
  const wide = matrix.columns / 4; // quads of a matrix's row
  const finished = (i: number, j: number): string => `
  subgroupMatrixStore<row_major>(&sumsOf, own * ${size}u, c${i}_${j}, ${matrix.columns}u);
  workgroupBarrier();
  for (var round = 0u; round < ${Math.ceil(quads / invocations)}u; round++) {
    let quad = local + round * ${invocations}u;
    let part = quad / ${size / 4}u % ${down * across}u;
    let row = firstRow + part / ${across}u * ${ownRows}u + ${i * matrix.rows}u + quad / ${wide}u % ${matrix.rows}u;
    let column = firstColumn + part % ${across}u * ${ownColumns}u + ${j * matrix.columns}u + quad % ${wide}u * 4u;
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
  return `
var<workgroup> tiles: array<f16, ${(rows + columns) * pitch}>;
var<workgroup> sumsOf: array<f32, ${subgroups * size}>;
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
  ${rowsOfC.flatMap((i) => columnsOfC.map((j) => `var c${i}_${j} = ${types.sums}();`)).join("\n  ")}
  ${range(ahead)
    .flatMap((set) =>
      sides.flatMap(({ side, of, count }) => range(count).map((i) => `var ${side}${set}_${i}: ${of.loaded};`)),
    )
    .join(" ")}
  ${range(ahead)
    .map((set) => load(set, `${set * depth}u`))
    .join("\n  ")}
  for (var k = 0u; k < p.k; k += ${depth * ahead}u) {
    ${range(ahead)
      .map(
        (set) => `${set === 0 ? "" : `if (k + ${set * depth}u < p.k) `}{
    ${put(set)}
    workgroupBarrier();
    ${load(set, `k + ${(set + ahead) * depth}u`)}
    ${multiply}
    workgroupBarrier();
    }`,
      )
      .join("\n    ")}
  }
  ${rowsOfC.flatMap((i) => columnsOfC.map((j) => finished(i, j))).join("")}
}`;
}
