/** The rule and the arithmetic of QuantizeLinear, for every opset. */
import type { Fact } from "../../graph/fact.js";
import type { CallContext, OutputFact } from "../../graph/op.js";
import { numberReader, numberWriter, readNumbers } from "../../tensor/access.js";
import { type ElementType, elementTypeOfCode, traitsOf } from "../../tensor/element-type.js";
import { decodeTable, encodeFloat, isSmallFloat, roundToEven } from "../../tensor/float.js";
import { forEachIndex, type View } from "../../tensor/view.js";
import { floatWriter } from "../cast/convert.js";
import { checkGranularity, type Granularity, scalePositions } from "./granularity.js";

/** What a node asks for, whatever its opset. */
interface Quantization extends Granularity {
  readonly saturate?: boolean;
  /** TensorProto.DataType codes; 0 stands for none. */
  readonly output_dtype?: number;
  readonly precision?: number;
}

/** The element type of an optional attribute that holds its code. */
export function typeOfAttribute(call: CallContext, name: string, code: number | undefined): ElementType | undefined {
  if (code === undefined || code === 0) return undefined;
  return (
    elementTypeOfCode(code) ?? call.fail(`${name} must be the code of an element type, got ${code}`, "invalid-argument")
  );
}

/** Type and shape of the output, and every check that needs no data. */
export function inferQuantize(
  call: CallContext,
  x: Fact,
  scale: Fact,
  zeroPoint: Fact | undefined,
  options: Quantization,
): OutputFact {
  const asked = typeOfAttribute(call, "output_dtype", options.output_dtype);
  if (asked !== undefined && zeroPoint !== undefined) {
    call.check(
      asked === zeroPoint.type,
      () => `output_dtype ${asked} must be the type of y_zero_point, ${zeroPoint.type}`,
      "type-mismatch",
    );
  }
  const precision = typeOfAttribute(call, "precision", options.precision);
  const dividing = precision === undefined || (traitsOf(precision).kind === "float" && traitsOf(precision).bits >= 16);
  call.check(
    dividing,
    () => `precision must be a float type of at least 16 bits, got ${precision}`,
    "invalid-argument",
  );
  checkGranularity(call, x, scale, zeroPoint, options);
  return { type: zeroPoint?.type ?? asked ?? "uint8", shape: x.shape };
}

/** Rounds a number to an element of a float type; other types leave it alone. */
function rounding(type: ElementType): (x: number) => number {
  if (type === "float32") return Math.fround;
  if (!isSmallFloat(type)) return (x) => x;
  const table = decodeTable(type);
  return (x) => table[encodeFloat(type, x)];
}

/** The type that x / y_scale is computed in: `precision`, else the scale's, where that is a type to compute in. */
function divisionType(call: CallContext, x: View, scale: View, options: Quantization): ElementType {
  const asked = typeOfAttribute(call, "precision", options.precision);
  if (asked !== undefined) return asked;
  if (scale.type !== "float8e8m0") return scale.type;
  return x.type === "int32" ? "float32" : x.type;
}

/** y = saturate(round(x / scale) + zero point); float types round only as they are written. */
export function quantize(
  call: CallContext,
  x: View,
  scale: View,
  zeroPoint: View | undefined,
  y: View,
  options: Quantization,
): void {
  const read = numberReader(x);
  const scales = readNumbers(scale);
  const zeros = zeroPoint === undefined ? undefined : readNumbers(zeroPoint);
  const scaleOf = scalePositions(call, x.shape, scale.shape, options);
  const rounded = rounding(divisionType(call, x, scale, options));
  const divide = (value: number, k: number): number => rounded(rounded(value) / rounded(scales[k]));
  const { bits, signed, kind } = traitsOf(y.type);
  if (kind === "float") {
    const write = floatWriter(y, { saturate: options.saturate ?? true, roundMode: "up" });
    return forEachIndex(x, (index, position) => {
      const k = scaleOf(position);
      const quotient = divide(read(index), k);
      // Adding 0 would take the sign from −0.
      write(y.offset + position, zeros === undefined ? quotient : quotient + zeros[k]);
    });
  }
  const low = signed ? -(2 ** (bits - 1)) : 0;
  const high = low + 2 ** bits - 1;
  const write = numberWriter(y);
  forEachIndex(x, (index, position) => {
    const k = scaleOf(position);
    const level = roundToEven(divide(read(index), k)) + (zeros?.[k] ?? 0);
    // NaN has no integer; it becomes the least one, as it does where minimum and maximum are taken in hardware.
    write(y.offset + position, Number.isNaN(level) ? low : Math.min(Math.max(level, low), high));
  });
}
