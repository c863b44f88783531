/** The walk that pooling makes: for every place of the output, the elements of the input under its window. */
import type { CallContext } from "../../graph/op.js";
import type { View } from "../../tensor/view.js";
import { product } from "../shared/loops/rows.js";
import { padded, type Window, windowOf, type WindowChoice } from "../shared/families/window.js";

/** Part of a window along one axis: where its elements start, how many lie in the input, and how many in the padded input. */
interface Span {
  readonly start: number;
  readonly count: number;
  readonly paddedCount: number;
}

/** What is done with a window: begun, fed with runs of elements `step` apart, ended. */
interface Pooling {
  begin(): void;
  run(start: number, count: number, step: number): void;
  end(output: number, sizes: { readonly count: number; readonly paddedCount: number }): void;
}

/** Walks all windows of a pooling over X [batch, channels, …]. Indices count from the start of X's and Y's elements. */
export function forEachWindow(
  call: CallContext,
  choice: WindowChoice,
  kernel: readonly number[],
  X: View,
  Y: View,
  pooling: Pooling,
): void {
  if (Y.size === 0) return;
  const input = X.shape.slice(2);
  const output = Y.shape.slice(2);
  const window = padded(windowOf(call, choice, input.length), choice.auto_pad, input, kernel);
  const chosen = new Array<Span>(input.length);
  const last = input.length - 1;
  const feed = (axis: number, base: number): void => {
    const { start, count } = chosen[axis];
    const step = window.dilations[axis];
    if (axis === last) return pooling.run(base * input[axis] + start, count, step);
    for (let i = 0; i < count; i++) feed(axis + 1, base * input[axis] + start + i * step);
  };
  const place = (axis: number, base: number, plane: number): void => {
    if (axis > last) {
      pooling.begin();
      feed(0, plane);
      pooling.end(base, {
        count: product(chosen.map(({ count }) => count)),
        paddedCount: product(chosen.map((span) => span.paddedCount)),
      });
      return;
    }
    for (let at = 0; at < output[axis]; at++) {
      chosen[axis] = spanOf(window, axis, at, input[axis], kernel[axis]);
      place(axis + 1, base * output[axis] + at, plane);
    }
  };
  const planes = X.shape[0] * X.shape[1];
  for (let plane = 0; plane < planes; plane++) place(0, plane, plane);
}

function spanOf(window: Window, axis: number, place: number, input: number, kernel: number): Span {
  const dilation = window.dilations[axis];
  const from = place * window.strides[axis] - window.before[axis];
  const within = (end: number): number => Math.min(kernel, Math.max(0, Math.floor((end - 1 - from) / dilation) + 1));
  const first = Math.max(0, Math.ceil(-from / dilation));
  return {
    start: from + first * dilation,
    count: Math.max(0, within(input) - first),
    paddedCount: within(input + window.after[axis]),
  };
}
