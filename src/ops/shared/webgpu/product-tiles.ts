/**
 * Products of many rows: a workgroup computes a tile of the result, each invocation some rows and columns of it in registers. Tiles of both operands lie
 * in workgroup memory, some of k at a time. The next ones are loaded while these are multiplied, and stay as they were loaded until they are put there.
 *
 * In float32, four values along k are one vector of either tile. In float16, four columns are: sums of four go from instruction to instruction in
 * pairs of float16, and are added to those of float32 every `depth` of k. A sum that float16 cannot hold is told by its exponent, and those of that
 * depth are computed again in float32: neither large activations nor sums that cancel later are lost.
 *
 * Places in workgroup memory are sums and products of the invocation's index that cannot leave the array, and vectors that invocations read together
 * are neighbours, so that neither bounds nor banks cost time.
 */
import type { Dispatch, DeviceTraits } from "../../../webgpu-kernels/webgpu-kernel.js";
import type { Tile, Tuning } from "../../../webgpu-kernels/tuning.js";
import { divided, range, registersFor } from "../../../webgpu-kernels/wgsl.js";
import { gridProduct, type GridProduct, matricesOf } from "./product-grid.js";
import type { FloatEights, HalfEights } from "./product-operands.js";

/** A product whose operands are read by eights, as `left` and as `weight`. */
interface TileProduct<Eights> extends Omit<GridProduct, "left" | "right"> {
  readonly left: Eights;
  readonly right: Eights;
}

/** Bytes of workgroup memory that a tile takes. */
const bytesOf =
  (element: number) =>
  ({ rows, columns, depth }: Tile): number =>
    (rows + columns) * depth * element;

/** Invocations of a tile. */
export const invocationsOf = ({ down, across }: Tile): number => down * across;

/** The first tile that fits and makes enough workgroups, else the last that fits. */
export function tileFor(
  { m, n }: Pick<GridProduct, "m" | "n">,
  matrices: number,
  tiles: Tuning["manyRows"]["floatTiles"],
  bytes: (tile: Tile) => number,
  { workgroupBytes, mostInvocations, tuning }: DeviceTraits,
): Tile | undefined {
  const fitting = tiles.filter((tile) => bytes(tile) <= workgroupBytes && invocationsOf(tile) <= mostInvocations);
  const countOf = ({ rows, columns }: Tile): number => Math.ceil(m / rows) * Math.ceil(n / columns) * matrices;
  return fitting.find((tile) => countOf(tile) >= tuning.manyRows.enoughTiles) ?? fitting.at(-1);
}

/** How a shader is written for a tile: operands' own parts, and what they are told by. */
interface TileCode {
  /** Workgroup memory. */
  readonly memory: string;
  /** From the front of a tile to loads on their way, in registers that are declared once. */
  readonly registers: string;
  readonly load: (front: string) => string;
  readonly put: string;
  readonly multiply: string;
  /** Sums that begin as zero, besides those of float32. */
  readonly sums: string;
}

/** The name of four sums: row `i` of an invocation, its quad `j` of columns. */
const sumOf = (i: number, j: number): string => `c${i}_${j}`;

/** What an invocation has of a tile. */
export const sharesOf = ({
  rows,
  columns,
  down,
  across,
}: Tile): { own: readonly number[]; quads: readonly number[] } => ({
  own: range(rows / down),
  quads: range(columns / across / 4),
});

/** Loads of a side, so many of them in all: a line for each of an invocation's, by an index. */
export const eachLoad = (count: number, invocations: number, line: (index: string, load: number) => string): string =>
  divided(count, invocations, line, "\n    ");

const leftLoad = (row: string, k: string): string => `leftLoaded(leftStart, min(firstRow + ${row}, p.m - 1u), ${k})`;
const rightLoad = (column: string, k: string): string =>
  `weightLoaded(rightStart, min(firstColumn + ${column}, p.n - 1u), ${k})`;

/** Eights of the left tile: a row each, so many neighbours side by side that their vectors have banks of their own. */
function leftEights({ rows, depth, down, across }: Tile): {
  readonly count: number;
  readonly row: (index: string) => string;
  readonly eight: (index: string) => string;
} {
  const eights = depth / 8;
  const side = Math.min(16, rows);
  return {
    count: Math.ceil((rows * eights) / (down * across)),
    row: (index) => `(${index} % ${side}u + ${index} / ${side * eights}u * ${side}u)`,
    eight: (index) => `(${index} / ${side}u % ${eights}u)`,
  };
}

function floatCode(tile: Tile, { left, right }: Pick<TileProduct<FloatEights>, "left" | "right">): TileCode {
  const { rows, columns, depth, down, across } = tile;
  const threads = invocationsOf(tile);
  const eights = depth / 8;
  const lefts = leftEights(tile);
  const wide = columns / 4;
  const side = Math.min(16, wide);
  // Columns of a quad lie apart, so that those that invocations read together are neighbours.
  const quad = (index: string): string => `(${index} % ${side}u + ${index} / ${4 * side * eights}u * ${side}u)`;
  const part = (index: string): string => `(${index} / ${side * eights}u % 4u)`;
  const eight = (index: string): string => `(${index} / ${side}u % ${eights}u)`;
  const [leftCount, rightCount] = [rows * eights, columns * eights];
  const { own, quads } = sharesOf(tile);
  const two = (array: string, [low, high]: readonly [string, string], at: string, pitch: number): string =>
    `{ let at = ${at}; ${array}[at] = ${low}; ${array}[at + ${pitch}u] = ${high}; }`;
  return {
    memory: `
var<workgroup> leftTile: array<vec4f, ${(depth / 4) * rows}>;
var<workgroup> rightTile: array<vec4f, ${(depth / 4) * columns}>;`,
    registers: `${registersFor(leftCount, threads, "left", left.loaded)} ${registersFor(rightCount, threads, "weight", right.loaded)}`,
    load: (
      front,
    ) => `${eachLoad(leftCount, threads, (index, at) => `left${at} = ${leftLoad(lefts.row(index), `${front} + ${lefts.eight(index)} * 8u`)};`)}
    ${eachLoad(rightCount, threads, (index, at) => `weight${at} = ${rightLoad(`${quad(index)} * 4u + ${part(index)}`, `${front} + ${eight(index)} * 8u`)};`)}`,
    put: `${eachLoad(leftCount, threads, (index, at) => two("leftTile", left.floats(`left${at}`), `${lefts.eight(index)} * ${2 * rows}u + ${lefts.row(index)}`, rows))}
    ${eachLoad(rightCount, threads, (index, at) => two("rightTile", right.floats(`weight${at}`), `${eight(index)} * ${2 * columns}u + ${part(index)} * ${wide}u + ${quad(index)}`, columns))}`,
    multiply: `for (var q = 0u; q < ${depth / 4}u; q++) {
      ${own.map((i) => `let a${i} = leftTile[q * ${rows}u + ${i * down}u + y];`).join(" ")}
      ${quads
        .flatMap((j) =>
          range(4).map(
            (at) => `{ let b = rightTile[q * ${columns}u + ${at * wide + j * across}u + x];
        ${own
          .map((i) => {
            const sum = `${sumOf(i, j)}[${at}]`;
            return `${sum} = ${sum} + a${i}.x * b.x + a${i}.y * b.y + a${i}.z * b.z + a${i}.w * b.w;`;
          })
          .join(" ")} }`,
          ),
        )
        .join("\n      ")}
    }`,
    sums: "",
  };
}

function halfCode(tile: Tile, { left, right }: Pick<TileProduct<HalfEights>, "left" | "right">): TileCode {
  const { rows, columns, depth, down, across } = tile;
  const threads = invocationsOf(tile);
  const eights = depth / 8;
  const lefts = leftEights(tile);
  const wide = columns / 4;
  const side = Math.min(8, wide);
  const quad = (index: string): string => `(${index} % ${side}u + ${index} / ${side * eights}u * ${side}u)`;
  const eight = (index: string): string => `(${index} / ${side}u % ${eights}u)`;
  const [leftCount, rightCount] = [rows * eights, wide * eights];
  const { own, quads } = sharesOf(tile);
  const four = range(4);
  return {
    memory: `
var<workgroup> leftTile: array<vec4<f16>, ${(depth / 4) * rows}>;
var<workgroup> rightTile: array<vec4<f16>, ${depth * wide}>;`,
    registers: `${range(Math.ceil(leftCount / threads))
      .map((at) => `var left${at}: ${left.loaded};`)
      .join(" ")} ${range(Math.ceil(rightCount / threads))
      .flatMap((at) => four.map((part) => `var weight${at}_${part}: ${right.loaded};`))
      .join(" ")}`,
    load: (
      front,
    ) => `${eachLoad(leftCount, threads, (index, at) => `left${at} = ${leftLoad(lefts.row(index), `${front} + ${lefts.eight(index)} * 8u`)};`)}
    ${eachLoad(rightCount, threads, (index, at) => four.map((part) => `weight${at}_${part} = ${rightLoad(`${quad(index)} * 4u + ${part}u`, `${front} + ${eight(index)} * 8u`)};`).join(" "))}`,
    put: `${eachLoad(leftCount, threads, (index, at) => `{ let eight = ${left.halves(`left${at}`)}; let at = ${lefts.eight(index)} * ${2 * rows}u + ${lefts.row(index)}; leftTile[at] = bitcast<vec4<f16>>(eight.xy); leftTile[at + ${rows}u] = bitcast<vec4<f16>>(eight.zw); }`)}
    ${eachLoad(
      rightCount,
      threads,
      (index, at) => `{ ${four.map((part) => `let e${part} = ${right.halves(`weight${at}_${part}`)};`).join(" ")}
      let at = ${eight(index)} * ${8 * wide}u + ${quad(index)};
      ${four
        .map(
          (word) => `{ ${four.map((part) => `let w${part} = bitcast<vec2<f16>>(e${part}[${word}]);`).join(" ")}
        rightTile[at + ${2 * word * wide}u] = vec4<f16>(w0.x, w1.x, w2.x, w3.x); rightTile[at + ${(2 * word + 1) * wide}u] = vec4<f16>(w0.y, w1.y, w2.y, w3.y); }`,
        )
        .join("\n      ")} }`,
    )}`,
    multiply: `${own.flatMap((i) => quads.map((j) => `var h${i}_${j} = vec4<f16>();`)).join(" ")}
    for (var q = 0u; q < ${depth / 4}u; q++) {
      ${own.map((i) => `let a${i} = leftTile[q * ${rows}u + ${i * down}u + y];`).join(" ")}
      ${four
        .flatMap((at) =>
          quads.map(
            (j) => `{ let b = rightTile[q * ${4 * wide}u + ${at * wide + j * across}u + x];
        ${own.map((i) => `h${i}_${j} = fma(vec4<f16>(a${i}[${at}]), b, h${i}_${j});`).join(" ")} }`,
          ),
        )
        .join("\n      ")}
    }
    var large = vec2u();
    ${own.flatMap((i) => quads.map((j) => `large |= (bitcast<vec2u>(h${i}_${j}) & vec2u(0x7c007c00u)) + vec2u(0x04000400u);`)).join(" ")}
    if (((large.x | large.y) & 0x80008000u) == 0u) {
      ${own.flatMap((i) => quads.map((j) => `${sumOf(i, j)} += vec4f(h${i}_${j});`)).join(" ")}
    } else {
      for (var k = 0u; k < ${depth}u; k++) {
        ${own.map((i) => `let a${i} = f32(leftTile[k / 4u * ${rows}u + ${i * down}u + y][k % 4u]);`).join(" ")}
        ${quads
          .map(
            (j) => `{ let b = vec4f(rightTile[k * ${wide}u + ${j * across}u + x]);
        ${own.map((i) => `${sumOf(i, j)} += a${i} * b;`).join(" ")} }`,
          )
          .join("\n        ")}
      }
    }`,
    sums: "",
  };
}

/** The whole shader. */
function shaderCode(tile: Tile, code: TileCode, starts: string, store: (sums: string) => string): string {
  const { rows, columns, depth, down, across } = tile;
  const { own, quads } = sharesOf(tile);
  const sums = own.flatMap((i) => quads.map((j) => ({ i, j, name: sumOf(i, j) })));
  return `${code.memory}
@compute @workgroup_size(${invocationsOf(tile)}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let batch = group.z;
  ${starts}
  let firstRow = group.y * ${rows}u;
  let firstColumn = group.x * ${columns}u;
  let x = local % ${across}u;
  let y = local / ${across}u;
  ${sums.map(({ name }) => `var ${name} = vec4f();`).join(" ")}
  ${code.registers}
  ${code.load("0u")}
  for (var start = 0u; start < p.k; start += ${depth}u) {
    ${code.put}
    workgroupBarrier();
    let next = start + ${depth}u;
    ${code.load("next")}
    ${code.multiply}
    workgroupBarrier();
  }
  ${sums
    .map(
      ({ i, j, name }) => `{
    let row = firstRow + ${i * down}u + y;
    let column = firstColumn + ${4 * j * across}u + x * 4u;
    if (row < p.m && column < p.n) {
      ${store(name)}
    }
  }`,
    )
    .join("\n  ")}
}`;
}

function tileProduct<Eights extends FloatEights | HalfEights>(
  work: TileProduct<Eights>,
  device: DeviceTraits,
  tiles: readonly Tile[],
  element: number,
  codeOf: (tile: Tile, work: TileProduct<Eights>) => TileCode,
): Dispatch | undefined {
  const { m, n } = work;
  const matrices = matricesOf(work);
  const tile = tileFor(work, matrices, tiles, bytesOf(element), device);
  if (tile === undefined) return undefined;
  return gridProduct(
    work,
    [Math.ceil(n / tile.columns), Math.ceil(m / tile.rows), matrices],
    (starts, store) => shaderCode(tile, codeOf(tile, work), starts, store),
    device,
    element === 2 ? ["f16"] : [],
  );
}

/** The dispatch of a product in float32; undefined where the grid is too large. Elements of the output must not share words over rows. */
export const floatTiles = (work: TileProduct<FloatEights>, device: DeviceTraits): Dispatch | undefined =>
  tileProduct(work, device, device.tuning.manyRows.floatTiles, 4, floatCode);

/** The same in float16, where the device has it. */
export const halfTiles = (work: TileProduct<HalfEights>, device: DeviceTraits): Dispatch | undefined =>
  device.f16 ? tileProduct(work, device, device.tuning.manyRows.halfTiles, 2, halfCode) : undefined;
