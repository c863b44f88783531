/** The gates of linear attention, the norm behind it and the sum with gates on WebGPU, in float32. */
import type { Operand } from "../../graph/kernel.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { type WebgpuKernel, webgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import { isFloatType, roundingTo } from "../../webgpu-kernels/wgsl.js";
import { elementWords } from "../shared/webgpu/element-words.js";
import { functionsPart } from "../shared/webgpu/functions.js";
import { GatedAdd, GatedRMSNorm, LinearAttentionGate } from "./op.js";

/** True for floats without gaps, whose outputs begin where their memory does; else why there is no kernel. */
function acceptsPlain(
  inputs: readonly (Operand | undefined)[],
  outputs: readonly (Operand | undefined)[],
): true | string {
  for (const operand of [...inputs, ...outputs]) {
    if (operand === undefined) continue;
    if (!isFloatType(operand.type)) return `there is no kernel for ${operand.type}`;
    if (!operand.contiguous) return "an operand has gaps";
  }
  const made = outputs.filter((output) => output !== undefined);
  if (made.some(({ place }) => place.offset !== 0)) return "an output begins inside of its memory";
  if (made.some(({ place }) => place.size === 0)) return "there is nothing to compute";
  return made.some(({ place }) => inputs.some((input) => input?.place.buffer === place.buffer))
    ? "an output lies where an operand does"
    : true;
}

const offsetOf = (operand: Operand): number => operand.place.offset;

/** decay_scale · softplus(a + dt_bias), sigmoid(b). */
export const linearAttentionGate: WebgpuKernel = webgpuKernel([LinearAttentionGate], {
  accepts({ inputs: { a, dt_bias, decay_scale, b }, outputs: { decay, beta } }) {
    if (decay === undefined) return "only the rates are asked for";
    return acceptsPlain([a, dt_bias, decay_scale, beta && b], [decay, beta]);
  },
  record({ inputs, outputs: { decay, beta } }, recorder) {
    const [a, bias, scale] = [
      variable("a", inputs.a),
      variable("bias", inputs.dt_bias),
      variable("scale", inputs.decay_scale),
    ];
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "attentionDecay",
        output: decay!,
        parts: [functionsPart("softplus"), a, bias, scale],
        parameters: {
          heads: inputs.dt_bias.place.size,
          offset: offsetOf(inputs.a),
          biasOffset: offsetOf(inputs.dt_bias),
          scaleOffset: offsetOf(inputs.decay_scale),
        },
        body: `  let head = element % p.heads;
  return ${scale.load("p.scaleOffset + head")} * softplus(${a.load("p.offset + element")} + ${bias.load("p.biasOffset + head")});`,
      }),
    );
    if (beta === undefined) return;
    const b = variable("b", inputs.b!);
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "attentionRate",
        output: beta,
        parts: [functionsPart("sigmoid"), b],
        parameters: { offset: offsetOf(inputs.b!) },
        body: `  return sigmoid(${b.load("p.offset + element")});`,
      }),
    );
  },
});

/** X / √(mean of squares + epsilon) · scale · gate · sigmoid(gate). */
export const gatedRmsNorm: WebgpuKernel = webgpuKernel([GatedRMSNorm], {
  accepts: ({ inputs: { X, scale, gate }, outputs: { Y } }) => acceptsPlain([X, scale, gate], [Y]),
  record({ inputs: { X, scale, gate }, outputs: { Y }, attrs: { epsilon } }, recorder) {
    const size = scale.place.size;
    const count = X.place.size / size;
    const factors = recorder.between("float32", [count]);
    const source = variable("source", X);
    recorder.dispatch(
      invocationsOf(recorder.device, {
        name: "meanSquares",
        parts: [source, variable("factors", factors, { element: "f32", writes: true })],
        parameters: { size, count, offset: offsetOf(X), epsilon: { float: epsilon } },
        count,
        body: `  if (index >= p.count) { return; }
  var sum = 0.0;
  for (var i = 0u; i < p.size; i++) {
    let x = ${source.load("p.offset + index * p.size + i")};
    sum += x * x;
  }
  factors[index] = inverseSqrt(sum / f32(p.size) + p.epsilon);`,
      }),
    );
    const [scales, gates] = [variable("scales", scale), variable("gates", gate)];
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "gateRows",
        output: Y,
        parts: [functionsPart("sigmoid"), source, scales, gates, variable("factors", factors, { element: "f32" })],
        parameters: { size, offset: offsetOf(X), scaleOffset: offsetOf(scale), gateOffset: offsetOf(gate) },
        body: `  let z = ${gates.load("p.gateOffset + element")};
  let x = ${source.load("p.offset + element")} * factors[element / p.size];
  return x * ${scales.load("p.scaleOffset + element % p.size")} * z * sigmoid(z);`,
      }),
    );
  },
});

/** X + Y · gate, with one gate for each row; the product is rounded first. */
export const gatedAdd: WebgpuKernel = webgpuKernel([GatedAdd], {
  accepts: ({ inputs: { X, Y, gate }, outputs: { output } }) => acceptsPlain([X, Y, gate], [output]),
  record({ inputs: { X, Y, gate }, outputs: { output } }, recorder) {
    const [x, y, gates] = [variable("x", X), variable("y", Y), variable("gates", gate)];
    recorder.dispatch(
      elementWords(recorder.device, {
        name: "addGated",
        output,
        parts: [roundingTo("rounded", output.type), x, y, gates],
        parameters: { size: X.shape.at(-1)!, xOffset: offsetOf(X), yOffset: offsetOf(Y), gateOffset: offsetOf(gate) },
        body: `  return ${x.load("p.xOffset + element")} + rounded(${y.load("p.yOffset + element")} * ${gates.load("p.gateOffset + element / p.size")});`,
      }),
    );
  },
});
