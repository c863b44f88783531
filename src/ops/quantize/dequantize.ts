/** The rule and the arithmetic of DequantizeLinear, for every opset. */
import type { Fact } from "../../graph/fact.js";
import type { CallContext, OutputFact } from "../../graph/op.js";
import { numberReader, numberWriter, readNumbers } from "../../tensor/access.js";
import { forEachIndex, type View } from "../../tensor/view.js";
import { checkGranularity, type Granularity, scalePositions } from "./granularity.js";
import { typeOfAttribute } from "./quantize.js";

/** What a node asks for, whatever its opset. */
interface Dequantization extends Granularity {
  /** TensorProto.DataType code; 0 stands for none. */
  readonly output_dtype?: number;
}

/** Type and shape of the output, and every check that needs no data. */
export function inferDequantize(
  call: CallContext,
  x: Fact,
  scale: Fact,
  zeroPoint: Fact | undefined,
  options: Dequantization,
): OutputFact {
  const asked = typeOfAttribute(call, "output_dtype", options.output_dtype);
  call.check(
    asked !== undefined || scale.type !== "float8e8m0",
    "output_dtype is needed with a scale of float8e8m0, which no output can be",
    "type-mismatch",
  );
  checkGranularity(call, x, scale, zeroPoint, options);
  return { type: asked ?? scale.type, shape: x.shape };
}

/** y = (x − zero point) · scale, rounded once. */
export function dequantize(
  call: CallContext,
  x: View,
  scale: View,
  zeroPoint: View | undefined,
  y: View,
  options: Dequantization,
): void {
  const read = numberReader(x);
  const scales = readNumbers(scale);
  const zeros = zeroPoint === undefined ? undefined : readNumbers(zeroPoint);
  const scaleOf = scalePositions(call, x.shape, scale.shape, options);
  const write = numberWriter(y);
  forEachIndex(x, (index, position) => {
    const k = scaleOf(position);
    write(y.offset + position, (read(index) - (zeros?.[k] ?? 0)) * scales[k]);
  });
}
