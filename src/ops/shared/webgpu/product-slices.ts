/**
 * Products in slices of k (split-K) of a batch's rows, more than are streamed one by one and fewer than fill tiles: a workgroup has all rows and a few columns of the result,
 * and its invocations divide k into slices, so that weights are streamed once by as many as keep a device busy. Sums of the slices are put together at
 * the end.
 */
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { range } from "../../../webgpu-kernels/wgsl.js";
import { gridProduct, type GridProduct, matricesOf } from "./product-grid.js";
import { eachLoad } from "./product-tiles.js";

/** Rows up to which products are computed so. */
const mostRows = 64;

/** How a workgroup computes: `rows` by `columns`, `depth` of k at a time in so many slices, `lines` of four sums an invocation. */
interface Slices {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly lines: 4 | 8;
  readonly slices: number;
}

/** Sums of all slices, and tiles of both operands, are within 16 KiB. */
const forRows: readonly Slices[] = [
  { rows: 16, columns: 32, depth: 64, lines: 4, slices: 4 },
  { rows: 32, columns: 32, depth: 64, lines: 8, slices: 4 },
  { rows: 64, columns: 32, depth: 32, lines: 8, slices: 2 },
];

/** The same for few columns: there are more workgroups then. */
const narrow = ({ rows, depth, lines, slices }: Slices): Slices => ({
  rows,
  columns: 16,
  depth,
  lines,
  slices: 2 * slices,
});

/** The dispatch of such a product; undefined where rows are too many. Elements of the output must not share words over rows. */
export function sliceProduct(work: GridProduct, device: DeviceTraits): Dispatch | undefined {
  const { m, n } = work;
  const wide = forRows.find(({ rows }) => m <= rows);
  if (wide === undefined || m > mostRows) return undefined;
  const matrices = matricesOf(work);
  const form = Math.ceil(n / wide.columns) * matrices >= device.tuning.manyRows.enoughSlices ? wide : narrow(wide);
  return gridProduct(
    work,
    [Math.ceil(n / form.columns), matrices],
    (starts, store) => sliceCode(form, starts, store("sums")),
    device,
  );
}

function sliceCode({ rows, columns, depth, lines, slices }: Slices, starts: string, store: string): string {
  const team = (rows / lines) * (columns / 4); // invocations of a slice
  const invocations = team * slices;
  const [down, across] = [rows / lines, columns / 4]; // invocations of a team along both sides
  const eights = depth / 8;
  // Rows of a tile are k's, out of order, and vectors of a row are swapped by its number: what invocations write together lies in different banks.
  const width = { left: rows / 4, right: columns / 4 };
  const front = depth * width.left;
  const vectors = Math.max(front + depth * width.right, invocations * lines);
  const place = (side: "left" | "weight", slot: string, vector: string): string => {
    const [base, size] = side === "left" ? ["", width.left] : [`${front}u + `, width.right];
    return `${base}${slot} * ${size}u + (${vector} ^ (${slot} % ${size}u))`;
  };
  const blocks = { left: (rows / 4) * eights, weight: (columns / 4) * eights };
  const each = (body: (side: "left" | "weight", index: string, load: number) => string): string =>
    (["left", "weight"] as const)
      .map((side) => eachLoad(blocks[side], invocations, (index, load) => body(side, index, load)))
      .join("\n    ");
  const load = (from: string): string =>
    each((side, index, at) => {
      const [start, first, last] = side === "left" ? ["leftStart", "0u", "p.m"] : ["rightStart", "firstColumn", "p.n"];
      const square = (offset: number): string =>
        `mat4x4f(${range(4)
          .map(
            (row) =>
              `${side}Quad(${start}, min(${first} + ${index} / ${eights}u * 4u + ${row}u, ${last} - 1u), ${from} + ${index} % ${eights}u * 8u + ${offset}u)`,
          )
          .join(", ")})`;
      return `${side}${at}_0 = transpose(${square(0)}); ${side}${at}_1 = transpose(${square(4)});`;
    });
  const put = each((side, index, at) =>
    range(8)
      .map((k) => {
        const slot = `(${k * eights}u + ${index} % ${eights}u)`;
        return `tiles[${place(side, slot, `(${index} / ${eights}u)`)}] = ${side}${at}_${k >> 2}[${k & 3}];`;
      })
      .join(" "),
  );
  const registers = each((side, _, at) => `${side}${at}`)
    .match(/(left|weight)\d+/g)!
    .map((name) => `var ${name}_0: mat4x4f; var ${name}_1: mat4x4f;`)
    .join(" ");
  const quads = range(lines / 4);
  const sums = quads.flatMap((quad) => range(4).map((line) => ({ quad, line, name: `c${quad}_${line}` })));
  return `
var<workgroup> tiles: array<vec4f, ${vectors}>;
@compute @workgroup_size(${invocations}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let batch = group.y;
  ${starts}
  let firstColumn = group.x * ${columns}u;
  let slice = local / ${team}u;
  let x = local % ${across}u;
  let y = local / ${across}u % ${down}u;
  ${sums.map(({ name }) => `var ${name} = vec4f();`).join(" ")}
  ${registers}
  ${load("0u")}
  for (var start = 0u; start < p.k; start += ${depth}u) {
    ${put}
    workgroupBarrier();
    let next = start + ${depth}u;
    ${load("next")}
    for (var at = 0u; at < ${depth / slices}u; at++) {
      let k = slice * ${depth / slices}u + at;
      ${quads.map((quad) => `let a${quad} = tiles[${place("left", "k", `(${quad * down}u + y)`)}];`).join(" ")}
      let b = tiles[${place("weight", "k", "x")}];
      ${sums.map(({ quad, line, name }) => `${name} += a${quad}[${line}] * b;`).join(" ")}
    }
    workgroupBarrier();
  }
  ${sums.map(({ name }, at) => `tiles[local * ${lines}u + ${at}u] = ${name};`).join(" ")}
  workgroupBarrier();
  for (var index = local; index < ${team * lines}u; index += ${invocations}u) {
    var sums = tiles[index];
    ${range(slices - 1)
      .map((slice) => `sums += tiles[${(slice + 1) * team * lines}u + index];`)
      .join(" ")}
    let part = index / ${lines}u;
    let line = index % ${lines}u;
    let row = (line / 4u * ${down}u + part / ${across}u) * 4u + line % 4u;
    let column = firstColumn + part % ${across}u * 4u;
    if (row < p.m && column < p.n) {
      ${store}
    }
  }
}`;
}
