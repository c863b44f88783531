/** ArgMax and ArgMin on WebGPU. A long line is cut into parts, whose best are compared by a second dispatch. */
import type { Operand } from "../../graph/kernel.js";
import {
  type Dispatch,
  type Temporary,
  type WebgpuKernel,
  webgpuKernel,
  type WebgpuRecorder,
} from "../../webgpu-kernels/webgpu-kernel.js";
import { dispatchOf, variable } from "../../webgpu-kernels/shader-part.js";
import { entry, isShaderType, workgroupsFor } from "../../webgpu-kernels/wgsl.js";
import { fromFront, joinDimensions } from "../shared/rules/layout.js";
import { bestOfWorkgroup, keyFunction } from "../shared/webgpu/order.js";
import { placeFunction, placeParameters } from "../shared/webgpu/row-phases.js";
import { ArgMax, ArgMin } from "./op.js";

/** Invocations that look along one line together; lines that are shorter, or lie side by side, have one each. */
const size = 256;
/** Elements of a part, where a line is cut. */
const partLength = 4096;

interface Search {
  readonly name: string;
  readonly data: Operand;
  readonly output: Operand;
  readonly axis: number;
  readonly largest: boolean;
  readonly last: boolean;
}

/** What an invocation does with a line of its own. */
const searchingAlone = (last: boolean): string =>
  `fn isBetter(key: u32, than: u32) -> bool { return key ${last ? ">=" : ">"} than; }
${entry(
  64,
  `if (index >= p.lines) { return; }
  var key = keyAt(index, 0u);
  var place = 0u;
  for (var k = 1u; k < p.length; k++) {
    let next = keyAt(index, k);
    if (isBetter(next, key)) { key = next; place = k; }
  }
  result[2u * index] = place;
  result[2u * index + 1u] = 0u;`,
)}`;

/** What a workgroup of either dispatch does with its line: `keyAt` and `placeAt` say what is compared. */
const searching = (last: boolean, found: string): string =>
  `${bestOfWorkgroup(size, last)}
${entry(
  size,
  `let line = group.y * groups.x + group.x;
  if (line >= p.lines) { return; }
  let end = endOf(line);
  // Behind the end everybody has what is first.
  var key = keyAt(line, min(firstOf(line) + local, end - 1u));
  var place = placeAt(line, min(firstOf(line) + local, end - 1u));
  for (var k = firstOf(line) + local + ${size}u; k < end; k += ${size}u) {
    let next = keyAt(line, k);
    let nextPlace = placeAt(line, k);
    if (isBetter(next, nextPlace, key, place)) { key = next; place = nextPlace; }
  }
  let found = best(key, place, local);
  if (local == 0u) { ${found} }`,
)}`;

const writeIndex = "result[2u * line] = found.y; result[2u * line + 1u] = 0u;";

function search(work: Search, recorder: WebgpuRecorder): void {
  const { name, data, output, axis, largest, last } = work;
  const length = data.shape[axis];
  const kept = joinDimensions(data.shape.toSpliced(axis, 1), [data.strides.toSpliced(axis, 1)]);
  const lines = output.place.size;
  const alone = length < size || (data.strides[axis] !== 1 && lines >= size);
  const parts = alone ? 1 : Math.ceil(length / partLength);
  const grid = (groups: number): Dispatch["workgroups"] =>
    workgroupsFor(groups * size, size, recorder.device.mostWorkgroups);
  const source = variable("source", data);
  const bests: Temporary | undefined = parts > 1 ? recorder.temporary(8 * lines * parts) : undefined;
  recorder.dispatch(
    dispatchOf({
      name,
      parts: [source, variable("result", bests ?? output, { writes: true })],
      code: `${keyFunction(data.type, largest, "first")}
${placeFunction("kept", kept)}
fn firstOf(line: u32) -> u32 { return line % p.parts * ${partLength}u; }
fn endOf(line: u32) -> u32 { return min(p.length, (line % p.parts + 1u) * ${partLength}u); }
fn placeAt(line: u32, k: u32) -> u32 { return k; }
fn keyAt(line: u32, k: u32) -> u32 {
  return keyOf(${source.load("p.offset + keptPlace(line / p.parts) + k * p.step")});
}
${alone ? searchingAlone(last) : searching(last, bests === undefined ? writeIndex : "result[2u * line] = found.x; result[2u * line + 1u] = found.y;")}`,
      parameters: {
        lines: lines * parts,
        parts,
        length,
        step: data.strides[axis],
        offset: data.place.offset,
        ...placeParameters("kept", kept),
      },
      workgroups: alone ? workgroupsFor(lines, 64, recorder.device.mostWorkgroups) : grid(lines * parts),
    }),
  );
  if (bests === undefined) return;
  recorder.dispatch(
    dispatchOf({
      name,
      parts: [variable("bests", bests), variable("result", output, { writes: true })],
      code: `fn firstOf(line: u32) -> u32 { return 0u; }
fn endOf(line: u32) -> u32 { return p.parts; }
fn keyAt(line: u32, k: u32) -> u32 { return bests[2u * (line * p.parts + k)]; }
fn placeAt(line: u32, k: u32) -> u32 { return bests[2u * (line * p.parts + k) + 1u]; }
${searching(last, writeIndex)}`,
      parameters: { lines, parts },
      workgroups: grid(lines),
    }),
  );
}

const argKernel = (op: typeof ArgMax, name: string, largest: boolean): WebgpuKernel =>
  webgpuKernel([op], {
    accepts({ inputs: { data }, outputs: { reduced } }) {
      if (!isShaderType(data.type)) return `${data.type} is no type of shaders`;
      return reduced.contiguous && reduced.place.offset === 0 ? true : "the output has gaps";
    },
    record({ inputs: { data }, outputs: { reduced: output }, attrs: { axis, select_last_index: last } }, recorder) {
      if (output.place.size > 0)
        search({ name, data, output, axis: fromFront(axis, data.shape), largest, last }, recorder);
    },
  });

/** The index of the largest element along `axis`. */
export const argMax: WebgpuKernel = argKernel(ArgMax, "argMax", true);

/** The index of the smallest element along `axis`. */
export const argMin: WebgpuKernel = argKernel(ArgMin, "argMin", false);
