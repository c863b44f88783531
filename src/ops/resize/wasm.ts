/** Resize and Upsample on WASM, in float32: axis by axis, each row as a sum of a few others. */
import { unreachable } from "../../base/error.js";
import { type Fact, factOfView } from "../../graph/fact.js";
import type { Operand } from "../../graph/kernel.js";
import type { CallContext } from "../../graph/op.js";
import { rowMajorStrides } from "../../tensor/view.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { recordCopy } from "../shared/wasm/copy.js";
import { productOf } from "../shared/rules/layout.js";
import { partsFor } from "../shared/wasm/work.js";
import { axesInNumbers } from "./axes.js";
import { askedOf, filterOf, type Operands, type ResizeChoice, simpleChoice } from "./choice.js";
import { Resize10, Resize11, Resize18, Upsample7, Upsample9 } from "./op.js";
import { type Axis, type Filter, isUnchanged, tapsOf } from "./taps.js";

/** The most elements of one table of taps. */
const mostTaps = 1 << 20;

/** What a call comes down to. */
interface Work {
  readonly filter: Filter;
  readonly axes: readonly Axis[];
}

/** Shape inference has checked the arguments. */
const checked: CallContext = { label: "Resize", opset: 0, fail: unreachable, check: () => undefined };

function workOf(
  choice: ResizeChoice,
  operands: Operands<Operand>,
  Y: Operand,
  given?: readonly number[],
): Work | string {
  const factOf = (operand: Operand | undefined): Fact | undefined => operand && factOfView(operand.view);
  const { X, roi, scales, sizes } = operands;
  for (const operand of [roi, scales, sizes])
    if (operand !== undefined && operand.view.size > 0 && !operand.known)
      return "scales or sizes are known only when it runs";
  const facts = { X: factOf(X)!, roi: factOf(roi), scales: factOf(scales), sizes: factOf(sizes) };
  return { filter: filterOf(choice), axes: axesInNumbers(checked, askedOf(choice, facts, given), X.shape, Y.shape) };
}

function accepts(X: Operand, Y: Operand, work: Work | string): true | string {
  if (typeof work === "string") return work;
  if (X.type !== "float32") return `there is no kernel for ${X.type}`;
  if (!X.contiguous || !Y.contiguous) return "an operand has gaps";
  if (work.filter.coordinates === "tf_crop_and_resize") return "there is no kernel for regions";
  for (const { to, scale } of work.axes)
    if (work.filter.antialias && to * (4 / Math.min(scale, 1) + 2) > mostTaps) return "the filter is too wide";
  return true;
}

function record(recorder: Recorder, X: Operand, Y: Operand, { filter, axes }: Work): void {
  if (Y.view.size === 0) return;
  const passes = [...axes.keys()].filter((at) => !isUnchanged(axes[at], filter));
  // What becomes smaller goes first.
  passes.sort((a, b) => axes[a].to / axes[a].from - axes[b].to / axes[b].from);
  let [source, shape] = [recorder.address(X), X.shape];
  if (passes.length === 0) {
    const strides = rowMajorStrides(shape);
    recordCopy(recorder, { source, target: recorder.address(Y), width: 4, shape, from: strides, to: strides });
  }
  for (const [index, at] of passes.entries()) {
    const axis = axes[at];
    const { count, indices, weights } = tapsOf(axis, filter);
    const next = shape.with(at, axis.to);
    const target = index === passes.length - 1 ? recorder.address(Y) : recorder.temporary(4 * productOf(next));
    recorder.run(
      "resample",
      {
        source,
        target,
        taps: recorder.words([...indices].flatMap((word, tap) => [{ word }, { number: weights[tap] }])),
        count,
        outer: productOf(shape.slice(0, at)),
        from: axis.from,
        to: axis.to,
        inner: productOf(shape.slice(at + 1)),
      },
      partsFor(recorder, productOf(next) * count),
    );
    [source, shape] = [target, next];
  }
}

/** Resamples by scales alone. */
export const simpleResize: WasmKernel = wasmKernel([Resize10, Upsample9], {
  accepts: ({ inputs, outputs: { Y }, attrs }) => accepts(inputs.X, Y, workOf(simpleChoice(attrs.mode), inputs, Y)),
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    record(recorder, inputs.X, Y, workOf(simpleChoice(attrs.mode), inputs, Y) as Work); // or it was not accepted
  },
});

/** Resamples by scales in an attribute. */
export const upsample: WasmKernel = wasmKernel([Upsample7], {
  accepts: ({ inputs, outputs: { Y }, attrs }) =>
    accepts(inputs.X, Y, workOf(simpleChoice(attrs.mode), inputs, Y, attrs.scales)),
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    record(recorder, inputs.X, Y, workOf(simpleChoice(attrs.mode), inputs, Y, attrs.scales) as Work); // or it was not accepted
  },
});

/** Resamples with any filter. */
export const resize: WasmKernel = wasmKernel([Resize11, Resize18], {
  accepts: ({ inputs, outputs: { Y }, attrs }) => accepts(inputs.X, Y, workOf(attrs, inputs, Y)),
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    record(recorder, inputs.X, Y, workOf(attrs, inputs, Y) as Work); // or it was not accepted
  },
});
