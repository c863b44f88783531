/**
 * Products of one row with weights whose rows run along k: what a decoder does for each token of one text. Lanes share a column's k, load several chunks
 * before the first sum, and put their sums together at the end. Several rows are in `few-rows.ts`.
 */
import type { Operand } from "../../../graph/kernel.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { pack, packing, perWord, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { powerOfTwo } from "./few-rows-division.js";
import { dotOf, type Piece, type Weights } from "./product-operands.js";
import { range } from "./product-tiles.js";

interface RowProduct {
  readonly name: string;
  readonly n: number;
  readonly k: number;
  /** Has `leftQuad`. */
  readonly left: Piece;
  readonly weights: Weights;
  /** Has `finish(batch, row, column, sum) -> f32`. */
  readonly finish: Piece;
  readonly output: Operand;
}

/** How the work is divided. */
interface Division {
  readonly threads: number;
  /** Invocations that share columns. */
  readonly lanes: number;
  /** Columns that they have. */
  readonly columns: number;
  /** Chunks that each loads before it sums. */
  readonly ahead: number;
}

/** Chunks that are on their way at a time, over all columns of an invocation. */
const loads = 8;

function divide({ n, weights: { chunks } }: RowProduct, { subgroup = 1 }: DeviceTraits): Division {
  const threads = Math.max(128, subgroup);
  const lanes = Math.min(threads, Math.max(8, subgroup, powerOfTwo(chunks / 4)));
  const each = powerOfTwo(chunks / lanes);
  // More columns an invocation are fewer invocations: only where there are columns enough to keep a device busy.
  const columns = n < 4096 ? 2 : n < 8192 || each > 1 ? 4 : 8;
  return { threads, lanes, columns, ahead: Math.min(loads / columns, each) };
}

/** The dispatch of such a product. Elements of the output must not share words over rows. */
export function rowProduct(work: RowProduct, device: DeviceTraits): Dispatch {
  const { name, n, k, left, weights, finish, output } = work;
  const { threads, lanes, columns, ahead } = divide(work, device);
  const [alongC, steps] = [range(columns), range(ahead)];
  const width = device.subgroup ?? 1;
  const groups = threads / lanes;
  const each = perWord(output.type);
  const quads = range(weights.chunk / 4);
  const products = steps.map(
    (step) => `if (at${step} < p.chunks) {
{
  ${quads.map((quad) => `let a${quad} = leftQuad(0u, 0u, at${step} * ${weights.chunk}u + ${4 * quad}u);`).join(" ")}
  ${alongC
    .map(
      (column) =>
        `s0_${column} += ${dotOf(
          weights,
          `w${step}_${column}`,
          quads.map((quad) => `a${quad}`),
        )};`,
    )
    .join("\n  ")}
}
}`,
  );
  const all = alongC.map((column) => ({ sum: `s0_${column}`, at: column }));
  const reduction =
    width > 1
      ? `${all.map(({ sum }) => `${sum} = subgroupAdd(${sum});`).join("\n  ")}
  if (local % ${width}u == 0u) { ${all.map(({ sum, at }) => `parts[(local / ${width}u) * ${columns}u + ${at}u] = ${sum};`).join(" ")} }
  workgroupBarrier();`
      : `${all.map(({ sum, at }) => `parts[local * ${columns}u + ${at}u] = ${sum};`).join(" ")}
  workgroupBarrier();
  for (var half = ${lanes / 2}u; half > 0u; half >>= 1u) {
    if (lane < half) {
      for (var at = 0u; at < ${columns}u; at++) { parts[local * ${columns}u + at] += parts[(local + half) * ${columns}u + at]; }
    }
    workgroupBarrier();
  }`;
  const words = columns / each; // of a group
  const sumAt = (at: number): string =>
    width > 1
      ? range(lanes / width)
          .map((part) => `parts[(team * ${lanes / width}u + ${part}u) * ${columns}u + column + ${at}u]`)
          .join(" + ")
      : `parts[team * ${lanes}u * ${columns}u + column + ${at}u]`;
  const code = `${packing}
${left.functions}
${weights.functions}
${finish.functions}
var<workgroup> parts: array<f32, ${(threads / width) * columns}>;
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let base = (group.y * groups.x + group.x) * ${groups * columns}u;
  let first = base + (local / ${lanes}u) * ${columns}u;
  let lane = local % ${lanes}u;
  ${alongC.map((column) => `let n${column} = min(first + ${column}u, p.n - 1u);`).join(" ")}
  ${all.map(({ sum }) => `var ${sum} = 0.0;`).join(" ")}
  for (var start = 0u; start < p.chunks; start += ${lanes * ahead}u) {
    ${steps.map((step) => `let at${step} = start + ${step * lanes}u + lane;`).join(" ")}
    ${steps
      .flatMap((step) =>
        alongC.map((column) => `let w${step}_${column} = weightChunk(n${column}, min(at${step}, p.chunks - 1u));`),
      )
      .join("\n    ")}
    ${products.join("\n")}
  }
  ${reduction}
  for (var at = local; at < ${groups * words}u; at += ${threads}u) {
    let team = at / ${words}u;
    let column = (at % ${words}u) * ${each}u;
    let n = base + team * ${columns}u + column;
    if (n < p.n) {
      result[(p.resultOffset + n) / ${each}u] = ${pack(
        output.type,
        range(each).map((at) => `finish(0u, 0u, min(n + ${at}u, p.n - 1u), ${sumAt(at)})`),
      )};
    }
  }
}`;
  return {
    name,
    code,
    bindings: [...left.bindings, ...weights.bindings, ...finish.bindings, { name: "result", of: output, writes: true }],
    parameters: {
      n,
      k,
      chunks: weights.chunks,
      resultOffset: output.place.offset,
      ...left.parameters,
      ...weights.parameters,
      ...finish.parameters,
    },
    workgroups: workgroupsFor(Math.ceil(n / columns), groups, device.mostWorkgroups),
  };
}
