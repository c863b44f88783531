/** RotaryEmbedding on WASM. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { recordRotation, rotatable, type Rotation } from "../wasm-rotate.js";

const rotationOf = ({ inputs: [x, cos, sin, positions], outputs: [y], attrs }: KernelCall): Rotation => ({
  source: x!,
  output: y!,
  cos: cos!,
  sin: sin!,
  positions,
  heads: x!.shape.length === 4 ? x!.shape[1] : (attrs["num_heads"] as number),
  interleaved: attrs["interleaved"] as boolean,
});

/** Turns pairs of each head's values by the angles of their position. */
export const rotaryEmbedding: WasmKernel = {
  op: "RotaryEmbedding",
  accepts: (call) => rotatable(rotationOf(call)),
  record: (call, recorder) => recordRotation(recorder, rotationOf(call)),
};
