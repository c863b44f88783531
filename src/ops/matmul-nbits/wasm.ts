/** MatMulNBits on WASM: one product with weights quantized in blocks. */
import type { CallOf } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { acceptsBlocks, type BlockProducts, recordBlocks } from "../shared/wasm/block-products.js";
import { MatMulNBits } from "./op.js";

const workOf = ({ inputs, outputs, attrs }: CallOf<typeof MatMulNBits>): BlockProducts => ({
  a: inputs.A,
  k: attrs.K,
  bits: attrs.bits,
  blockSize: attrs.block_size,
  level: attrs.accuracy_level,
  products: [
    {
      b: inputs.B,
      scales: inputs.scales,
      zeros: inputs.zero_points,
      bias: inputs.bias,
      n: attrs.N,
      output: outputs.Y,
    },
  ],
});

/** A · dequantized(B)ᵀ + bias. */
export const matmulBlocks: WasmKernel = wasmKernel([MatMulNBits], {
  accepts: (call) => (call.inputs.g_idx === undefined ? acceptsBlocks(workOf(call)) : "g_idx orders the blocks"),
  record: (call, recorder) => recordBlocks(recorder, workOf(call)),
});
