/** The reductions on WebGPU: floats in float32, whole numbers of 32 bits and less where wrapping gives what exact sums do. */
import type { ElementType } from "../../tensor/element-type.js";
import { webgpuFamily, type WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isShaderType, scalarOf } from "../../webgpu-kernels/wgsl.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { acceptsRows, reduceRows, type RowWork } from "../shared/webgpu/row-phases.js";
import { isFloat } from "../shared/webgpu/types.js";
import { axesOf, reductions, type Versions } from "./axes.js";

/** What a reduction does with the elements of a type; undefined where whole numbers need more than their bits. */
type Fold = (type: ElementType) => Pick<RowWork, "phases" | "result" | "uses"> | undefined;

/** A number as WGSL writes it for a type. */
const literal = (type: ElementType, value: 0 | 1): string =>
  ({ f32: `${value}.0`, i32: `${value}`, u32: `${value}u` })[scalarOf(type)];

const addition = (a: string, b: string): string => `${a} + ${b}`;

const sumOf =
  (
    term: string,
    finish: (total: string) => string = (total) => total,
    floatsOnly = false,
    uses: RowWork["uses"] = [],
  ): Fold =>
  (type) =>
    floatsOnly && !isFloat(type)
      ? undefined
      : { phases: [{ initial: literal(type, 0), term, combine: addition }], result: finish("m0"), uses };

const extreme =
  (ofFloats: "larger" | "smaller", ofIntegers: "max" | "min"): Fold =>
  (type) => {
    const [lowest, highest] = {
      f32: ["-infinity()", "infinity()"],
      i32: ["(-2147483647 - 1)", "2147483647"],
      u32: ["0u", "4294967295u"],
    }[scalarOf(type)];
    const combine = (a: string, b: string): string => `${isFloat(type) ? ofFloats : ofIntegers}(${a}, ${b})`;
    return {
      phases: [{ initial: ofIntegers === "max" ? lowest : highest, term: "x", combine }],
      result: "m0",
      uses: isFloat(type) ? [functionsPart(ofFloats, "infinity")] : [],
    };
  };

const product: Fold = (type) => ({
  phases: [{ initial: literal(type, 1), term: "x", combine: (a, b) => `${a} * ${b}` }],
  result: "m0",
});

/** An infinite or absent greatest element is its own answer. */
const logSumExp: Fold = (type) =>
  isFloat(type)
    ? {
        phases: [
          { initial: "-infinity()", term: "x", combine: (a, b) => `larger(${a}, ${b})` },
          { initial: "0.0", term: "exponential(x - m0)", combine: addition },
        ],
        result: "select(m0 + logarithm(m1), m0, isNan(m0) || isInfinite(m0))",
        uses: [functionsPart("infinity", "larger", "exponential", "logarithm", "isNan", "isInfinite")],
      }
    : undefined;

function reduction(name: string, versions: Versions, fold: Fold): WebgpuKernel {
  const family = webgpuFamily<RowWork>({
    accepts: acceptsRows,
    record(work, recorder) {
      if (work.output.place.size > 0) recorder.dispatch(reduceRows(work, recorder));
    },
  });
  return family(versions, (call) => {
    const { data: input } = call.inputs;
    const axes = axesOf(call);
    if (axes === undefined) return "the axes are data";
    const folded = isShaderType(input.type) ? fold(input.type) : undefined;
    if (folded === undefined) return `${input.type} is reduced exactly`;
    return { name, input, output: call.outputs.reduced, axes, ...folded };
  });
}

/** The sum of elements. */
export const reduceSum: WebgpuKernel = reduction("reduceSum", reductions.Sum, sumOf("x"));

/** The mean of elements. */
export const reduceMean: WebgpuKernel = reduction(
  "reduceMean",
  reductions.Mean,
  sumOf("x", (total) => `${total} / f32(p.length)`, true),
);

/** The product of elements. */
export const reduceProd: WebgpuKernel = reduction("reduceProd", reductions.Prod, product);

/** The greatest element. */
export const reduceMax: WebgpuKernel = reduction("reduceMax", reductions.Max, extreme("larger", "max"));

/** The least element. */
export const reduceMin: WebgpuKernel = reduction("reduceMin", reductions.Min, extreme("smaller", "min"));

/** The sum of absolute values. */
export const reduceL1: WebgpuKernel = reduction("reduceL1", reductions.L1, sumOf("abs(x)"));

/** The root of the sum of squares. */
export const reduceL2: WebgpuKernel = reduction(
  "reduceL2",
  reductions.L2,
  sumOf("x * x", (total) => `sqrt(${total})`, true),
);

/** The sum of squares. */
export const reduceSumSquare: WebgpuKernel = reduction("reduceSumSquare", reductions.SumSquare, sumOf("x * x"));

/** The logarithm of the sum. */
export const reduceLogSum: WebgpuKernel = reduction(
  "reduceLogSum",
  reductions.LogSum,
  sumOf("x", (total) => `logarithm(${total})`, true, [functionsPart("logarithm")]),
);

/** The logarithm of the sum of exponentials. */
export const reduceLogSumExp: WebgpuKernel = reduction("reduceLogSumExp", reductions.LogSumExp, logSumExp);
