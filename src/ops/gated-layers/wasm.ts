/** The gates of linear attention, the norm behind it and the sum with gates on WASM, in float32: halves round in between as their parts would. */
import type { Operand } from "../../graph/kernel.js";
import { elementCode } from "../../wasm-kernels/jobs.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { apply, elementwise, expressible, operand, recordExpression } from "../shared/wasm/elementwise.js";
import { partsFor } from "../shared/wasm/work.js";
import { GatedAdd, GatedRMSNorm, LinearAttentionGate } from "./op.js";

/** X + Y · gate. */
export const gatedAdd: WasmKernel = elementwise([GatedAdd], ({ inputs: { X, Y, gate }, outputs: { output } }) =>
  X.type === "float32"
    ? { output, value: apply("add", operand(X), apply("multiply", operand(Y), operand(gate))) }
    : `the product is rounded to ${X.type}`,
);

/** decay_scale · softplus(a + dt_bias), sigmoid(b). */
export const linearAttentionGate: WasmKernel = wasmKernel([LinearAttentionGate], {
  accepts({ inputs, outputs: { decay, beta } }) {
    if (decay === undefined) return "only the rates are asked for";
    const answers = [expressible(decayOf(inputs), decay)];
    if (beta !== undefined) answers.push(expressible(apply("sigmoid", operand(inputs.b!)), beta));
    return answers.find((answer) => answer !== true) ?? true;
  },
  record({ inputs, outputs: { decay, beta } }, recorder) {
    recordExpression(recorder, decayOf(inputs), decay!);
    if (beta !== undefined) recordExpression(recorder, apply("sigmoid", operand(inputs.b!)), beta);
  },
});

const decayOf = (inputs: Readonly<Record<"a" | "dt_bias" | "decay_scale", Operand>>): ReturnType<typeof apply> =>
  apply(
    "multiply",
    operand(inputs.decay_scale),
    apply("softplus", apply("add", operand(inputs.a), operand(inputs.dt_bias))),
  );

/** X / √(mean of squares + epsilon) · scale, then times gate · sigmoid(gate). */
export const gatedRmsNorm: WasmKernel = wasmKernel([GatedRMSNorm], {
  accepts({ inputs: { X, scale, gate }, outputs: { Y } }) {
    if (X.type !== "float32") return `there is no kernel for ${X.type}`;
    if (![X, scale, gate, Y].every(({ contiguous }) => contiguous)) return "an operand has gaps";
    if (Y.place.buffer === gate.place.buffer) return "the result lies where the gate does";
    return Y.view.size === 0 ? "there is nothing to compute" : expressible(gated(Y, gate), Y);
  },
  record({ inputs: { X, scale, gate }, outputs: { Y }, attrs: { epsilon } }, recorder) {
    const size = scale.view.size;
    const rows = X.view.size / size;
    recorder.run(
      "rmsNormalize",
      {
        source: recorder.address(X),
        skip: 0,
        sum: 0,
        scale: recorder.address(scale),
        bias: 0,
        output: recorder.address(Y),
        type: elementCode.float32,
        rows,
        size,
        sourceRow: size,
        skipRow: 0,
        sumRow: 0,
        outputRow: size,
        epsilon,
        addend: 0,
        mean: 0,
        inverse: 0,
      },
      partsFor(recorder, X.view.size * 0.5),
    );
    recordExpression(recorder, gated(Y, gate), Y);
  },
});

const gated = (normalized: Operand, gate: Operand): ReturnType<typeof apply> =>
  apply("multiply", operand(normalized), apply("silu", operand(gate)));
