/** Rotary embedding as a job: what the fast paths of ONNX's operator and of onnxruntime's share. */
import type { Operand, Recorder } from "../kernels/wasm-kernel.js";
import { headsView } from "./attention/heads.js";
import { liesWithin } from "./wasm-indices.js";
import { codeOf, oneFloatType, partsFor } from "./wasm-work.js";

/** One rotation. */
export interface Rotation {
  readonly source: Operand;
  readonly output: Operand;
  readonly cos: Operand;
  readonly sin: Operand;
  /** [batch, length], one offset for all, or left out where the angles are given for every token. */
  readonly positions: Operand | undefined;
  readonly heads: number;
  readonly interleaved: boolean;
}

/** True if the kernel can turn this, else why not. */
export function rotatable({ source, output, cos, sin, positions, heads }: Rotation): true | string {
  const types = oneFloatType([source, output, cos, sin]);
  if (types !== true) return types;
  if (!cos.contiguous || !sin.contiguous || positions?.contiguous === false) return "angles or positions have gaps";
  const gaps = [source, output].some(({ view }) => {
    const { shape, strides } = headsView(view, heads);
    return shape[3] > 1 && strides[3] !== 1;
  });
  return gaps ? "heads have gaps" : true;
}

/** Queues a rotation that `rotatable` holds of. Positions outside of the tables, or counted from their end, are left to the slow truth. */
export function recordRotation(recorder: Recorder, rotation: Rotation): void {
  const { source, output, cos, sin, positions, heads, interleaved } = rotation;
  if (source.view.size === 0) return;
  const [from, to] = [headsView(source.view, heads), headsView(output.view, heads)];
  const [batch, , length, size] = from.shape;
  const pairs = cos.shape.at(-1)!;
  const isOffset = positions !== undefined && positions.shape.length < 2;
  if (positions !== undefined)
    recorder.when(liesWithin(positions, 0, isOffset ? cos.shape[0] - length : cos.shape[0] - 1));
  recorder.run(
    "rotate",
    {
      source: recorder.address(source),
      output: recorder.address(output),
      cos: recorder.address(cos),
      sin: recorder.address(sin),
      positions: positions === undefined ? 0 : recorder.address(positions),
      type: codeOf(source.type),
      batch,
      heads,
      length,
      size,
      pairs,
      interleaved: interleaved ? 1 : 0,
      sourceSample: from.strides[0],
      sourceHead: from.strides[1],
      sourceRow: from.strides[2],
      outputSample: to.strides[0],
      outputHead: to.strides[1],
      outputRow: to.strides[2],
      positionSample: isOffset ? 0 : length,
      positionStep: isOffset ? 0 : 1,
      angleRow: pairs,
    },
    partsFor(recorder, source.view.size * 0.6),
  );
}
