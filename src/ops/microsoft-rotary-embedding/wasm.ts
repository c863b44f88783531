/** onnxruntime's RotaryEmbedding on WASM. */
import type { KernelCall, WasmKernel } from "../../kernels/wasm-kernel.js";
import { recordRotation, rotatable, type Rotation } from "../wasm-rotate.js";

function rotationOf({ inputs: [input, positions, cos, sin], outputs: [output], attrs }: KernelCall): Rotation {
  const { shape } = input!;
  const given = attrs["num_heads"] as number;
  const heads = shape.length === 4 ? shape[1] : given > 0 ? given : shape[2] / Math.max(1, 2 * cos!.shape[1]);
  return {
    source: input!,
    output: output!,
    cos: cos!,
    sin: sin!,
    positions,
    heads,
    interleaved: attrs["interleaved"] as boolean,
  };
}

/** Turns pairs of each head's values by the angles of their position, which is always given. */
export const microsoftRotaryEmbedding: WasmKernel = {
  op: "RotaryEmbedding",
  domain: "com.microsoft",
  accepts: (call) => rotatable(rotationOf(call)),
  record: (call, recorder) => recordRotation(recorder, rotationOf(call)),
};
