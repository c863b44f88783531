/**
 * Products of many rows and weights of few bits in whole numbers, where the caller allows it (accuracy_level 4): rows are rounded to bytes, each block of
 * them with a scale of its own, by a dispatch before. Four bytes are multiplied and added up in one instruction, and scaled once a block. Else as
 * product-tiles has it.
 */
import type { Operand } from "../../../graph/kernel.js";
import { invocationsOf, type ShaderPart, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch, Temporary, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import type { Tile } from "../../../webgpu-kernels/tuning.js";
import { range, registersFor, unrolled } from "../../../webgpu-kernels/wgsl.js";
import { functionsPart } from "./functions.js";
import { gridProduct, type GridProduct } from "./product-grid.js";
import { type ByteCells, stridedFloats } from "./product-operands.js";
import { eachLoad, invocationsOf as threadsOf, shaderCode, sharesOf, type TileCode, tileFor } from "./product-tiles.js";

/** Values that share a scale: blocks of weights are whole numbers of these. */
const block = 32;

/** Values of a cell: one load, and one vector of a tile. */
const cell = 16;

/** A product whose left operand has rows without gaps. */
interface BytesProduct extends Omit<GridProduct, "left" | "right" | "batch"> {
  readonly a: Operand;
  readonly cells: ByteCells;
}

/** Records such a product; false where the device does not compute it so. */
export function recordBytes({ a, cells, ...work }: BytesProduct, recorder: WebgpuRecorder): boolean {
  const { device } = recorder;
  const { m, k } = work;
  const tiles = device.tuning.manyRows.byteTiles.filter((tile) => tile.depth === block);
  const tile = device.dots ? tileFor(work, 1, tiles, bytesOf, device) : undefined;
  if (tile === undefined) return false;
  const blocks = Math.ceil(k / block);
  const bytes = recorder.temporary(m * blocks * block);
  const scales = recorder.temporary(m * blocks * 4);
  const product = gridProduct(
    { ...work, batch: [], left: leftPart(bytes, scales, blocks), right: cells },
    [Math.ceil(work.n / tile.columns), Math.ceil(m / tile.rows), 1],
    (_, store) => shaderCode(tile, bytesCode(tile, cells), "let batch = 0u;", store),
    device,
  );
  if (product === undefined) return false;
  recorder.dispatch(roundingDispatch(a, { m, k, blocks, cells, bytes, scales }, device));
  recorder.dispatch(product);
  return true;
}

/** Bytes of workgroup memory: a byte for each value and a scale for each row and column. */
const bytesOf = ({ rows, columns, depth }: Tile): number => (rows + columns) * (depth + (4 * depth) / block);

/** The dispatch that rounds rows to bytes: the greatest of a block becomes 127. What is not finite becomes NaN. */
function roundingDispatch(
  a: Operand,
  given: {
    readonly m: number;
    readonly k: number;
    readonly blocks: number;
    readonly cells: ByteCells;
    readonly bytes: Temporary;
    readonly scales: Temporary;
  },
  device: DeviceTraits,
): Dispatch {
  const { m, k, blocks, cells, bytes, scales } = given;
  const left = stridedFloats("left", a, { row: k, k: 1, batch: [] }, { rows: m, k });
  const target = variable("cells", bytes, { element: "vec4<u32>", writes: true });
  const factors = variable("factors", scales, { element: "f32", writes: true });
  const eights = range(block / 8);
  const words = (eight: number): string =>
    cells.order === "even first"
      ? `rounded(inverse, vec4f(low${eight}.xz, high${eight}.xz)), rounded(inverse, vec4f(low${eight}.yw, high${eight}.yw))`
      : `rounded(inverse, low${eight}), rounded(inverse, high${eight})`;
  return invocationsOf(device, {
    name: "roundRows",
    parts: [
      left,
      target,
      factors,
      functionsPart("notANumber"),
      {
        code: `fn rounded(inverse: f32, values: vec4f) -> u32 { return pack4xI8(vec4i(round(values * inverse))); }
fn sizeOf(values: vec4f) -> vec4u { return bitcast<vec4u>(values) & vec4u(0x7fffffffu); }`,
      },
    ],
    parameters: { m, k, blocks },
    count: m * blocks,
    body: `if (index >= p.m * p.blocks) { return; }
  let row = index / p.blocks;
  let first = index % p.blocks * ${block}u;
  ${eights
    .map((eight) => {
      const [low, high] = left.floats(`loaded${eight}`);
      return `let loaded${eight} = leftLoaded(0u, row, first + ${8 * eight}u); let low${eight} = ${low}; let high${eight} = ${high};`;
    })
    .join("\n  ")}
  var sizes = vec4u();
  ${eights.map((eight) => `sizes = max(sizes, max(sizeOf(low${eight}), sizeOf(high${eight})));`).join("\n  ")}
  let largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  let isFinite = largest < 0x7f800000u;
  let top = bitcast<f32>(select(0u, largest, isFinite));
  // Devices divide by numbers whose inverse is no subnormal: of the largest floats a part.
  let isLarge = top > 1e37;
  let inverse = select(select(127.0, 7.9375, isLarge) / select(top, 0.0625 * top, isLarge), 0.0, top < 1e-36);
  ${factors.set("index", "select(notANumber(), top / 127.0, isFinite)")}
  ${range(block / cell)
    .map((at) => target.set(`index * ${block / cell}u + ${at}u`, `vec4u(${words(2 * at)}, ${words(2 * at + 1)})`))
    .join("\n  ")}`,
  });
}

/** Rows as bytes: `leftCell(row, k)` and `leftScale(row, k)`, of any k. */
function leftPart(bytes: Temporary, scales: Temporary, blocks: number): ShaderPart {
  const left = variable("left", bytes, { element: "vec4<u32>" });
  const factors = variable("leftScales", scales, { element: "f32" });
  return {
    uses: [left, factors],
    code: `
fn leftCell(row: u32, k: u32) -> vec4u { return ${left.at(`row * p.blocks * ${block / cell}u + min(k / ${cell}u, p.blocks * ${block / cell}u - 1u)`)}; }
fn leftScale(row: u32, k: u32) -> f32 { return ${factors.at(`row * p.blocks + min(k / ${block}u, p.blocks - 1u)`)}; }`,
    parameters: { blocks },
  };
}

/** 1.5 · 2^23 as a float's bits: with a whole number added to them they are a float that is larger by it, which takes less time than to convert it. */
const magic = { bits: "0x4b400000i", value: "12582912.0" } as const;

function bytesCode(tile: Tile, cells: ByteCells): TileCode {
  const { rows, columns, depth, down, across } = tile;
  const threads = threadsOf(tile);
  const each = depth / cell; // cells of a row
  const wide = columns / 4;
  const sides = { left: Math.min(16, rows), right: Math.min(16, wide) };
  const counts = { left: rows * each, right: columns * each };
  const row = (index: string): string =>
    `(${index} % ${sides.left}u + ${index} / ${sides.left * each}u * ${sides.left}u)`;
  const leftAt = (index: string): string => `(${index} / ${sides.left}u % ${each}u)`;
  // Columns of a quad lie apart, so that those that invocations read together are neighbours.
  const quad = (index: string): string =>
    `(${index} % ${sides.right}u + ${index} / ${4 * sides.right * each}u * ${sides.right}u)`;
  const part = (index: string): string => `(${index} / ${sides.right * each}u % 4u)`;
  const rightAt = (index: string): string => `(${index} / ${sides.right}u % ${each}u)`;
  const { own, quads } = sharesOf(tile);
  const load = (
    front: string,
  ): string => `${eachLoad(counts.left, threads, (index, at) => `{ let own = min(firstRow + ${row(index)}, p.m - 1u); let k = ${front} + ${leftAt(index)} * ${cell}u; left${at} = leftCell(own, k); leftScale${at} = leftScale(own, k); }`)}
    ${eachLoad(counts.right, threads, (index, at) => `weight${at} = weightCell(min(firstColumn + ${quad(index)} * 4u + ${part(index)}, p.n - 1u), ${front} + ${rightAt(index)} * ${cell}u);`)}`;
  const put = `${eachLoad(counts.left, threads, (index, at) => `leftTile[${leftAt(index)} * ${rows}u + ${row(index)}] = left${at}; if (${leftAt(index)} == 0u) { leftScales_[${row(index)}] = leftScale${at}; }`)}
    ${eachLoad(counts.right, threads, (index, at) => `{ let at = ${part(index)} * ${wide}u + ${quad(index)}; rightTile[${rightAt(index)} * ${columns}u + at] = ${cells.bytes(`weight${at}`)}; if (${rightAt(index)} == 0u) { rightScales[at] = ${cells.scale(`weight${at}`)}; } }`)}`;
  const cellsOf = range(each);
  const lefts = (i: number): string =>
    `${cellsOf.map((at) => `let a${at} = leftTile[${at * rows + i * down}u + y];`).join(" ")} let s = leftScales_[${i * down}u + y];`;
  const rights = (j: number, column: number): string =>
    `${cellsOf.map((at) => `let b${column}_${at} = rightTile[${at * columns + column * wide + j * across}u + x];`).join(" ")} let t${column} = rightScales[${column * wide + j * across}u + x];`;
  const added = (i: number, j: number, column: number): string => {
    const dots = cellsOf.flatMap((at) =>
      ["x", "y", "z", "w"].map((letter) => `dot4I8Packed(a${at}.${letter}, b${column}_${at}.${letter})`),
    );
    return `c${i}_${j}[${column}] += s * t${column} * (bitcast<f32>(${magic.bits} + ${dots.join(" + ")}) - ${magic.value});`;
  };
  return {
    memory: `
var<workgroup> leftTile: array<vec4u, ${each * rows}>;
var<workgroup> rightTile: array<vec4u, ${each * columns}>;
var<workgroup> leftScales_: array<f32, ${rows}>;
var<workgroup> rightScales: array<f32, ${columns}>;`,
    registers: `${unrolled(Math.ceil(counts.left / threads), (at) => `var left${at}: vec4u; var leftScale${at}: f32;`, " ")} ${registersFor(counts.right, threads, "weight", cells.loaded)}`,
    load,
    put,
    // Four columns are held at a time while rows come one by one: to hold all rows would take registers that keep other workgroups out.
    multiply: quads
      .map(
        (j) => `{ ${range(4)
          .map((column) => rights(j, column))
          .join("\n    ")}
    ${own
      .map(
        (i) => `{ ${lefts(i)}
      ${range(4)
        .map((column) => added(i, j, column))
        .join(" ")} }`,
      )
      .join("\n    ")} }`,
      )
      .join("\n    "),
  };
}
