/**
 * DequantizeMatMul on WebGPU: weights of 8 and 4 bits in a form whose rows run along k, signed ones moved up to be unsigned; scales for all, by
 * column, or by blocks of rows and column.
 */
import type { CallOf, Operand } from "../../graph/kernel.js";
import {
  type DeviceTraits,
  type Dispatch,
  type WebgpuKernel,
  webgpuKernel,
  type OperandForm,
} from "../../webgpu-kernels/webgpu-kernel.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { blockWeights } from "../shared/webgpu/block-weights.js";
import { readLevel } from "../shared/webgpu/levels.js";
import { acceptsBlocks, recordBlocks } from "../shared/webgpu/product.js";
import { DequantizeMatMul } from "./op.js";

/** Values of a row that are padded to: one load of 4 bits. */
const padding = 32;

type Call = CallOf<typeof DequantizeMatMul>;

/** The steps from scale to scale, and the size of blocks; why not where they are none that the kernel reads. */
function scalesOf({ inputs: { B: b, scale }, attrs }: Call): { row: number; block: number; size: number } | string {
  const [k, n] = b.shape;
  const size = Math.ceil(k / padding) * padding;
  if (scale.place.size === 1) return { row: 0, block: 0, size };
  const { axis, block_size: blockSize } = attrs;
  const isColumn = axis === 1 || axis === -1;
  if (blockSize === 0) return isColumn ? { row: 1, block: 0, size } : "scales vary by row";
  if (isColumn) return "blocks lie along rows";
  if (blockSize % 16 !== 0) return "blocks are no multiple of 16 rows";
  return { row: 1, block: n, size: blockSize };
}

/** A · DequantizeLinear(B) + bias. */
export const dequantizeMatmul: WebgpuKernel = webgpuKernel([DequantizeMatMul], {
  accepts(call) {
    const { A: a, B: b, scale, zero_point: zero, bias } = call.inputs;
    if (!b.constant) return "B is no weight";
    if (b.shape[0] === 0) return "there is nothing to compute";
    if (!scale.contiguous || zero?.contiguous === false) return "an operand has gaps";
    const scales = scalesOf(call);
    if (typeof scales === "string") return scales;
    return acceptsBlocks({ a, bias, output: call.outputs.Y, k: b.shape[0], n: b.shape[1] });
  },
  record(call, recorder) {
    const { A: a, B: b, scale, zero_point: zero, bias } = call.inputs;
    const output = call.outputs.Y;
    const scales = scalesOf(call);
    if (typeof scales === "string" || output.place.size === 0) return;
    const [k, n] = b.shape;
    const bits = b.type.endsWith("4") ? 4 : 8;
    const middle = b.type.startsWith("u") ? 0 : 2 ** (bits - 1);
    const blocks = Math.ceil(k / scales.size);
    const words = (blocks * scales.size * bits) / 32;
    const data = recorder.form([b], `unsigned rows along k of ${words} words`, n * words * 4, (form) =>
      unsignedRows(b, form, { n, k, words, bits, middle }, recorder.device),
    );
    const weights = blockWeights({
      data,
      scales: scale,
      scaleSteps: scales,
      zeros: zero === undefined ? { kind: "one", value: middle } : { kind: "elements", operand: zero, added: middle },
      bits,
      blockSize: scales.size,
      blocks,
      k,
    });
    recordBlocks({ a, mayRound: false, weights, bias, output, n, k }, recorder);
  },
});

/** The dispatch that lays out weights [k, n] with their rows along k, from 0 on, so many words each. */
function unsignedRows(
  b: Operand,
  form: OperandForm,
  { n, k, words, bits, middle }: Record<"n" | "k" | "words" | "bits" | "middle", number>,
  device: DeviceTraits,
): Dispatch {
  const values = Array.from(
    { length: 32 / bits },
    (_, at) => `(valueAt(n, word * ${32 / bits}u + ${at}u) << ${at * bits}u)`,
  );
  const source = variable("source", b);
  const rows = variable("rows", form, { writes: true });
  const valueAt = `
fn valueAt(n: u32, k: u32) -> u32 {
  if (k >= p.k) { return 0u; }
  let at = p.offset + k * p.n + n;
  return u32(i32(${readLevel(b.type, source, "at")}) + ${middle});
}`;
  return invocationsOf(device, {
    name: "unsignedRows",
    parts: [{ code: valueAt }, source, rows],
    parameters: { offset: b.place.offset, n, k, words },
    count: n * words,
    body: `if (index >= p.n * p.words) { return; }
  let n = index % p.n;
  let word = index / p.n;
  ${rows.set("n * p.words + word", values.join(" | "))}`,
  });
}
