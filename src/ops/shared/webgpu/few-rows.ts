/**
 * Products of 2 to 8 rows with weights whose rows run along k, and with what stands around them: what a decoder does for each step of a few texts. It is one
 * dispatch, as it is for a single row, and reads each weight once. `few-rows-division.ts` says who does what; a norm is one number a row, which sums are
 * multiplied by at the end.
 */
import { dispatchOf, textOf, variable } from "../../../webgpu-kernels/shader-part.js";
import type { DeviceTraits, Dispatch } from "../../../webgpu-kernels/webgpu-kernel.js";
import { packing, perWord, unrolled, workgroupsFor } from "../../../webgpu-kernels/wgsl.js";
import { columns, divideFewRows } from "./few-rows-division.js";
import { type FewRowsProduct, FewRowsShader } from "./few-rows-shader.js";
import { togetherCode } from "./few-rows-sums.js";

/** The dispatch of such a product. Elements of the output must not share words over rows. */
export function fewRowsProduct(work: FewRowsProduct, device: DeviceTraits): Dispatch {
  const { name, m, n, k, left, weights, norm, finish, gate, output } = work;
  const { chunk, chunks } = weights;
  const division = divideFewRows({ m, n, chunk, chunks, hasNorm: norm !== undefined }, device);
  const { rows, threads, lanes, ahead, turns } = division;
  const width = device.subgroup ?? 1;
  const teams = threads / lanes;
  const [each, pairs] = [perWord(output.type), gate === undefined ? 1 : 2];
  if (columns % (each * pairs) !== 0) throw new RangeError(`${output.type} has no words of few columns`);
  const shader = new FewRowsShader(work, division, width);
  const isOnce = chunks <= lanes * ahead;
  const early = turns === 1 && isOnce;
  // What reads weights is written by how their chunks lie, which their functions tell.
  const around = [norm !== undefined, gate !== undefined, left.eight !== undefined, left.code, output.type];
  const settings = [m < rows, n, k, division, width, weights.code, chunk, chunks, ...around];
  const code = textOf(
    "fewRows",
    settings,
    () => `${shader.functions()}
@compute @workgroup_size(${threads}) fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32,
  ${width > 1 ? "@builtin(subgroup_invocation_id) own: u32," : ""}
) {
  let lane = local % ${lanes}u;
  let first = (group.y * groups.x + group.x) * ${teams * columns * turns}u;
  ${early ? `${shader.ownColumns("first")}\n  ${shader.load("0u")}` : ""}
  ${shader.bringIn()}
  ${turns === 1 ? "{ let base = first;" : `for (var turn = 0u; turn < ${turns}u; turn++) { let base = first + turn * ${teams * columns}u;`}
  ${early ? "" : shader.ownColumns("base")}
  ${unrolled(rows, (row) => `var s${row} = vec4f();`, " ")}
  ${
    isOnce
      ? `${early ? "" : shader.load("0u")}\n  ${shader.multiply()}`
      : `for (var start = 0u; start < ${chunks}u; start += ${lanes * ahead}u) {
    ${shader.load("start")}
    ${shader.multiply()}
  }`
  }
  ${togetherCode(division, width)}
  }
}`,
  );
  return dispatchOf({
    name: `${name}${rows}`,
    parts: [packing, left, weights, finish, norm?.factor, gate, variable("result", output, { writes: true })],
    extensions: width > 1 ? ["subgroups"] : [],
    code,
    parameters: {
      k,
      resultOffset: output.place.offset,
      ...(norm === undefined ? {} : { epsilon: { float: norm.epsilon } }),
      ...(m < rows ? { m } : {}),
    },
    fixed: true,
    ...(m < rows ? { open: ["m"] } : {}),
    workgroups: workgroupsFor(Math.ceil(n / (columns * turns)), teams, device.mostWorkgroups),
  });
}
