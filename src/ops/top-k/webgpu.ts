/** TopK on WebGPU, of few elements: a workgroup looks for them one after another, as for experts and for candidates of a sampler. */
import type { Operand } from "../../graph/kernel.js";
import { type WebgpuKernel, webgpuKernel, type WebgpuRecorder } from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { isShaderType, perWord } from "../../webgpu-kernels/wgsl.js";
import { fromFront, productOf } from "../shared/rules/layout.js";
import { bestOfWorkgroup, keyFunction } from "../shared/webgpu/order.js";
import { asBits } from "../shared/webgpu/types.js";
import { TopK1, TopK10 } from "./op.js";

/** Invocations that look along a line together. */
const sizeFor = (length: number): number => (length <= 1024 ? 32 : 256);
/** Elements that all passes over a line look at: beyond, sorting on the host is faster. */
const mostLooks = 2 ** 20;

interface Search {
  readonly X: Operand;
  readonly values: Operand | undefined;
  readonly indices: Operand | undefined;
  readonly axis: number;
  readonly largest: boolean;
}

function accepts({ X, values, indices, axis }: Search): true | string {
  const asked = (values ?? indices)!;
  if (!isShaderType(X.type)) return `${X.type} is no type of shaders`;
  if (perWord(X.type) > 1) return `several elements of ${X.type} share a word`;
  if (!X.contiguous) return "the data have gaps";
  if (asked.shape[axis] * X.shape[axis] > mostLooks) return "there is too much to look for";
  return [values, indices].every((each) => each === undefined || (each.contiguous && each.place.offset === 0))
    ? true
    : "an output has gaps";
}

/** A pass for each element that is wanted: the best of those that come behind the one before. */
function record({ X, values, indices, axis, largest }: Search, recorder: WebgpuRecorder): void {
  const asked = (values ?? indices)!;
  if (asked.place.size === 0) return;
  const source = variable("source", asBits(X)!, { type: X.type });
  const k = asked.shape[axis];
  const size = sizeFor(X.shape[axis]);
  const lines = asked.place.size / k;
  const body = `let line = group.y * groups.x + group.x;
  if (line >= p.lines) { return; }
  let start = p.offset + line / p.inner * p.length * p.inner + line % p.inner;
  var before = vec2u(0xffffffffu, 0u);
  for (var found = 0u; found < p.k; found++) {
    var key = 0u;
    var place = 0xffffffffu;
    for (var at = local; at < p.length; at += ${size}u) {
      let next = keyOf(${source.load("start + at * p.inner")});
      let left = found == 0u || isBetter(before.x, before.y, next, at);
      if (left && (place == 0xffffffffu || isBetter(next, at, key, place))) { key = next; place = at; }
    }
    before = best(key, place, local);
    if (local == 0u) {
      let target_ = (line / p.inner * p.k + found) * p.inner + line % p.inner;
      ${values === undefined ? "" : `values[target_] = ${source.at("start + before.y * p.inner")};`}
      ${indices === undefined ? "" : "indices[2u * target_] = before.y; indices[2u * target_ + 1u] = 0u;"}
    }
  }`;
  recorder.dispatch(
    invocationsOf(recorder.device, {
      name: "topK",
      parts: [
        { code: keyFunction(X.type, largest, largest ? "first" : "last") },
        { code: bestOfWorkgroup(size, false) },
        source,
        values && variable("values", values, { writes: true }),
        indices && variable("indices", indices, { writes: true }),
      ],
      parameters: {
        lines,
        k,
        length: X.shape[axis],
        inner: productOf(X.shape.slice(axis + 1)),
        offset: X.place.offset,
      },
      count: lines * size,
      size,
      body,
    }),
  );
}

/** The `k` largest elements along `axis`. */
export const topKByAttribute: WebgpuKernel = webgpuKernel([TopK1], {
  accepts: ({ inputs: { X }, outputs: { Values: values, Indices: indices }, attrs: { axis } }) =>
    accepts({ X, values, indices, axis: fromFront(axis, X.shape), largest: true }),
  record: ({ inputs: { X }, outputs: { Values: values, Indices: indices }, attrs: { axis } }, recorder) =>
    record({ X, values, indices, axis: fromFront(axis, X.shape), largest: true }, recorder),
});

/** The `K` largest (or smallest) elements along `axis`. */
export const topK: WebgpuKernel = webgpuKernel([TopK10], {
  accepts: ({ inputs: { X }, outputs: { Values: values, Indices: indices }, attrs: { axis, largest } }) =>
    accepts({ X, values, indices, axis: fromFront(axis, X.shape), largest }),
  record: ({ inputs: { X }, outputs: { Values: values, Indices: indices }, attrs: { axis, largest } }, recorder) =>
    record({ X, values, indices, axis: fromFront(axis, X.shape), largest }, recorder),
});
