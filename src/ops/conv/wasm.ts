/** Conv and FusedConv on WASM, in float32, over one or two spatial axes. */
import type { Operand } from "../../graph/kernel.js";
import { type Recorder, type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { padded, type Window, type WindowChoice } from "../shared/families/window.js";
import { productParts, recordProductAt, single } from "../shared/wasm/matmul.js";
import { Conv, FusedConv } from "./op.js";

interface Operands {
  readonly X: Operand;
  readonly W: Operand;
  readonly B?: Operand | undefined;
}

/** What is done to each sum: its negative part scaled, then held within bounds. */
interface Ending {
  readonly slope: number;
  readonly least: number;
  readonly most: number;
}

const noEnding: Ending = { slope: 1, least: -Infinity, most: Infinity };

/** The activation as such an ending; undefined for one that is none. */
function endingOf(activation: string, [first, second]: readonly number[]): Ending | undefined {
  if (activation === "") return noEnding;
  if (activation === "Relu") return { ...noEnding, least: 0 };
  if (activation === "LeakyRelu") return { ...noEnding, slope: first };
  return activation === "Clip" ? { ...noEnding, least: first, most: second } : undefined;
}

function accepts({ X, W, B }: Operands, Y: Operand): true | string {
  for (const operand of [X, W, B, Y]) {
    if (operand === undefined) continue;
    if (operand.type !== "float32") return `there is no kernel for ${operand.type}`;
    if (!operand.contiguous) return "an operand has gaps";
  }
  return X.shape.length <= 4 ? true : "there is no kernel for more than two spatial axes";
}

function record(
  recorder: Recorder,
  { X, W, B }: Operands,
  Y: Operand,
  choice: WindowChoice & { readonly group: number },
  ending: Ending,
): void {
  if (Y.view.size === 0) return;
  const rank = X.shape.length - 2;
  const every = (entries: readonly number[] | undefined, absent: number): readonly number[] =>
    entries ?? new Array<number>(rank).fill(absent);
  const pads = choice.pads ?? new Array<number>(2 * rank).fill(0);
  const [strides, dilations] = [every(choice.strides, 1), every(choice.dilations, 1)];
  const given: Window = { strides, dilations, before: pads.slice(0, rank), after: pads.slice(rank) };
  const window = padded(given, choice.auto_pad, X.shape.slice(2), W.shape.slice(2));
  // One spatial axis is a single row.
  const [height, width] = pair(X.shape.slice(2), 1);
  const [kernelHeight, kernelWidth] = pair(W.shape.slice(2), 1);
  const [outHeight, outWidth] = pair(Y.shape.slice(2), 1);
  const [strideHeight, strideWidth] = pair(window.strides, 1);
  const [dilationHeight, dilationWidth] = pair(window.dilations, 1);
  const [padHeight, padWidth] = pair(window.before, 0);
  const multiplications = Y.view.size * W.shape[1] * kernelHeight * kernelWidth;
  const shape = {
    height,
    width,
    outWidth,
    kernelHeight,
    kernelWidth,
    strideHeight,
    strideWidth,
    dilationHeight,
    dilationWidth,
    padHeight,
    padWidth,
  };
  const [maps, channels] = W.shape;
  if (choice.group === 1 && maps >= leastMaps && channels * kernelHeight * kernelWidth >= leastTaps)
    return recordAsProduct(recorder, { X, W, B }, Y, { ...shape, outHeight }, ending);
  recorder.run(
    "convolve",
    {
      ...shape,
      outHeight,
      source: recorder.address(X),
      weights: recorder.address(W),
      bias: B === undefined ? 0 : recorder.address(B),
      target: recorder.address(Y),
      samples: X.shape[0],
      groups: choice.group,
      channels,
      maps: maps / choice.group,
      ...ending,
    },
    productParts(multiplications, recorder),
  );
}

/** Maps, and taps of a kernel, from which on a product is worth laying out windows for. */
const [leastMaps, leastTaps] = [8, 16];

/** Bytes of windows that are laid out at once. */
const windowBytes = 1 << 22;

type Sizes = Readonly<
  Record<
    | "height"
    | "width"
    | "outHeight"
    | "outWidth"
    | "kernelHeight"
    | "kernelWidth"
    | "strideHeight"
    | "strideWidth"
    | "dilationHeight"
    | "dilationWidth"
    | "padHeight"
    | "padWidth",
    number
  >
>;

/** W [maps, taps] times the windows [taps, places], as many places at a time as fit, straight into the output. */
function recordAsProduct(
  recorder: Recorder,
  { X, W, B }: Operands,
  Y: Operand,
  { outHeight, ...sizes }: Sizes,
  ending: Ending,
): void {
  const [maps, channels] = W.shape;
  const { height, width, kernelHeight, kernelWidth } = sizes;
  const taps = channels * kernelHeight * kernelWidth;
  const places = outHeight * sizes.outWidth;
  const isPlain =
    kernelHeight * kernelWidth === 1 && sizes.padHeight + sizes.padWidth === 0 && places === height * width;
  const most = isPlain ? places : Math.min(places, Math.max(64, 8 * Math.floor(windowBytes / (32 * taps))));
  const columns = isPlain ? 0 : recorder.temporary(4 * taps * most);
  for (let sample = 0; sample < X.shape[0]; sample++) {
    const source = recorder.address(X) + 4 * sample * channels * height * width;
    const target = recorder.address(Y) + 4 * sample * maps * places;
    for (let first = 0; first < places; first += most) {
      const count = Math.min(most, places - first);
      if (!isPlain)
        recorder.run(
          "unfold",
          { ...sizes, source, target: columns, channels, first, count },
          taps * count < 1 << 14 ? 1 : recorder.threads,
        );
      const b = { address: isPlain ? source : columns, type: "float32" } as const;
      const matrices = {
        a: W,
        b,
        bias: undefined,
        m: maps,
        n: count,
        k: taps,
        aRow: taps,
        aColumn: 1,
        bK: count,
        bN: 1,
      };
      recordProductAt(recorder, { ...matrices, cRow: places, ...single }, target + 4 * first);
    }
  }
  if (B === undefined && ending === noEnding) return;
  const rows = X.shape[0] * maps;
  const bias = B === undefined ? 0 : recorder.address(B);
  recorder.run(
    "endRows",
    { target: recorder.address(Y), bias, rows, columns: places, maps, ...ending },
    rows * places < 1 << 14 ? 1 : recorder.threads,
  );
}

const pair = (sizes: readonly number[], absent: number): readonly number[] =>
  sizes.length === 1 ? [absent, sizes[0]] : sizes;

/** The convolution of X with W, plus B. */
export const convolution: WasmKernel = wasmKernel([Conv], {
  accepts: ({ inputs, outputs: { Y } }) => accepts(inputs, Y),
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    record(recorder, inputs, Y, attrs, noEnding);
  },
});

/** The same with an activation behind it that needs no more than bounds. */
export const fusedConvolution: WasmKernel = wasmKernel([FusedConv], {
  accepts({ inputs, outputs: { Y }, attrs: { activation, activation_params } }) {
    if (inputs.Z !== undefined) return "there is no kernel for a sum before the activation";
    if (endingOf(activation, activation_params ?? []) === undefined) return `there is no kernel for ${activation}`;
    return accepts(inputs, Y);
  },
  record({ inputs, outputs: { Y }, attrs }, recorder) {
    record(recorder, inputs, Y, attrs, endingOf(attrs.activation, attrs.activation_params ?? [])!); // or it was not accepted
  },
});
