/**
 * Projection on WebGPU: one row, or up to 8 of them, in one dispatch, norm, gate and addend included; many rows as a norm, a product in tiles and a gate,
 * each a dispatch of its own. Sums are float32.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import {
  type DeviceTraits,
  type Dispatch,
  type WebgpuKernel,
  webgpuKernel,
  type WebgpuRecorder,
} from "../../webgpu-kernels/webgpu-kernel.js";
import { type ShaderPart, variable } from "../../webgpu-kernels/shader-part.js";
import { isFloatType, perWord } from "../../webgpu-kernels/wgsl.js";
import { blockWeights, zeroPointsOf } from "../shared/webgpu/block-weights.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { normalize } from "../shared/webgpu/normalize.js";
import { fewRowsProduct } from "../shared/webgpu/few-rows.js";
import { fewRows } from "../shared/webgpu/few-rows-division.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { acceptsBlocks, added, finishing, recordBlocks, recordProduct } from "../shared/webgpu/product.js";
import { floatWeights, rowQuads, stridedQuads, type Weights } from "../shared/webgpu/product-operands.js";
import { rowProjection } from "../shared/webgpu/projection-rows.js";
import { Projection } from "./op.js";

type Call = CallOf<typeof Projection>;

/** The weights with their rows along k; undefined where floats cannot be brought into that form. */
function weightsOf({ inputs: { B, scales, zero_points }, attrs }: Call, recorder: WebgpuRecorder): Weights | undefined {
  const { K: k, N: n, bits, block_size: blockSize } = attrs;
  if (scales === undefined) return floatWeights(B, { row: B.strides[1], k: B.strides[0] }, { n, k }, recorder);
  return blockWeights({ data: B, scales, zeros: zeroPointsOf(zero_points, bits), bits, blockSize, k });
}

/** A product with a norm before it, and a gate or an addend behind it. */
export const projection: WebgpuKernel = webgpuKernel([Projection], {
  accepts({ inputs, outputs: { Y: output }, attrs }) {
    const { A: a, B: b, scales, zero_points: zeros, bias, norm_scale, addend } = inputs;
    if (scales !== undefined && !isFloatType(scales.type)) return `there is no kernel for ${scales.type}`;
    for (const operand of [b, scales, zeros, norm_scale, addend])
      if (operand?.contiguous === false) return "an operand has gaps";
    if (!b.constant || b.place.offset !== 0) return "the weights are no constant that begins where its memory does";
    if (norm_scale !== undefined && a.place.size / attrs.K > fewRows && attrs.K % perWord(a.type) !== 0)
      return "rows that are normalized by themselves are an odd number of halves of a word";
    return acceptsBlocks({ a, bias, output, n: attrs.gated ? attrs.N / 2 : attrs.N, k: attrs.K });
  },
  record(call, recorder) {
    const { inputs, outputs, attrs } = call;
    const { A: a, bias, norm_scale: scale, addend } = inputs;
    const { K: k, N: n, epsilon, gated } = attrs;
    const { Y: output } = outputs;
    if (output.place.size === 0) return;
    const m = a.place.size / k;
    const { device } = recorder;
    const weights = m <= fewRows ? weightsOf(call, recorder) : undefined;
    if (weights !== undefined) {
      const factor = scale && stridedQuads("factor", scale, { row: 0, k: 1, batch: [] }, { rows: 1, k });
      const common = {
        name: gated ? "gatedProjection" : "projection",
        n,
        k,
        weights,
        norm: factor && { factor, epsilon },
        output,
      };
      if (m > 1) {
        const left = rowQuads("left", a, { row: k, k: 1 }, { rows: m, k });
        const finish = finishing(added(bias, gated ? undefined : addend, n));
        const gate = gated ? gatePart(addend, n / 2) : undefined;
        return recorder.dispatch(fewRowsProduct({ ...common, m, left, finish, gate }, device));
      }
      const left = stridedQuads("left", a, { row: k, k: 1, batch: [] }, { rows: 1, k });
      const dispatch = rowProjection({ ...common, left, bias, gated, addend }, device);
      if (dispatch !== undefined) return recorder.dispatch(dispatch);
    }
    const rows = scale === undefined ? a : normalized(a, scale, k, epsilon, recorder);
    const product = gated ? recorder.between(output.type, [m, n]) : output;
    recordWhole(call, rows, product, gated ? undefined : addend, recorder);
    if (gated) recorder.dispatch(gateDispatch(product, addend, output, device));
  },
});

/** SwiGLU of a gate and what it lets through, with an addend for each element of a result of n columns: `gated(row, column, gate, up)`. */
function gatePart(addend: Operand | undefined, n: number): ShaderPart {
  const addends = addend && variable("gateAddend", addend);
  return {
    uses: [functionsPart("sigmoid"), addends],
    code: `fn gated(row: u32, column: u32, gate: f32, up: f32) -> f32 {
  return gate * sigmoid(gate) * up${addends === undefined ? "" : ` + ${addends.load(`p.gateAddendOffset + row * ${n}u + column`)}`};
}`,
    parameters: addend === undefined ? {} : { gateAddendOffset: addend.place.offset },
  };
}

/** The rows after the norm, in memory of the call's own. */
function normalized(source: Operand, scale: Operand, size: number, epsilon: number, recorder: WebgpuRecorder): Operand {
  const output = recorder.between(source.type, [source.place.size / size, size]);
  const job = { name: "rmsNormalization", centered: false, source, size, scale, output, epsilon };
  recorder.dispatch(normalize(job, recorder.device));
  return output;
}

/** The product alone, with bias and addend. */
function recordWhole(
  call: Call,
  a: Operand,
  output: Operand,
  residual: Operand | undefined,
  recorder: WebgpuRecorder,
): void {
  const { inputs, attrs } = call;
  const { B: b, bias, scales } = inputs;
  const { K: k, N: n } = attrs;
  if (scales !== undefined) {
    recordBlocks(
      { a, mayRound: attrs.accuracy_level === 4, weights: weightsOf(call, recorder)!, bias, residual, output, n, k },
      recorder,
    );
    return;
  }
  const finish = added(bias, residual, n);
  const strides = { aRow: k, aK: 1, bK: b.strides[0], bN: b.strides[1] };
  recordProduct({ a, b, m: a.place.size / k, n, k, ...strides, batch: [], output, finish }, recorder);
}

/** SwiGLU of neighbouring columns. */
function gateDispatch(product: Operand, addend: Operand | undefined, output: Operand, device: DeviceTraits): Dispatch {
  const [pairs, addends] = [variable("pairs", product), addend && variable("addend", addend)];
  const body = `
  let gate = ${pairs.load("2u * element")};
  let gated = gate * sigmoid(gate) * ${pairs.load("2u * element + 1u")};
  return gated${addends === undefined ? "" : ` + ${addends.load("p.addendOffset + element")}`};`;
  return elementWords(device, {
    name: "gate",
    output,
    body,
    parts: [pairs, addends, functionsPart("sigmoid")],
    parameters: addend === undefined ? {} : { addendOffset: addend.place.offset },
  });
}
