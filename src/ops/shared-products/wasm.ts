/** SharedProducts on WASM: what is multiplied is prepared once, and threads share the columns of all products. */
import type { CallOf } from "../../graph/kernel.js";
import { type WasmKernel, wasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import { acceptsBlocks, type BlockProducts, recordBlocks } from "../shared/wasm/block-products.js";
import { SharedProducts } from "./op.js";
import { placesOf } from "./places.js";

const workOf = (call: CallOf<typeof SharedProducts>): BlockProducts => {
  const { inputs, outputs, attrs } = call;
  return {
    a: inputs.A,
    k: attrs.K,
    bits: attrs.bits,
    blockSize: attrs.block_size,
    level: attrs.accuracy_level,
    products: placesOf(call).map((at) => ({
      b: inputs[`B${at}`]!,
      scales: inputs[`scales${at}`]!,
      zeros: inputs[`zero_points${at}`],
      bias: inputs[`bias${at}`],
      n: attrs[`N${at}`],
      output: outputs[`Y${at}`]!,
    })),
  };
};

/** Products of one value. */
export const sharedProducts: WasmKernel = wasmKernel([SharedProducts], {
  accepts(call) {
    const work = workOf(call);
    const [{ scales, zeros }] = work.products;
    const alike = work.products.every((each) => each.scales.type === scales.type && each.zeros?.type === zeros?.type);
    return alike ? acceptsBlocks(work) : "scales or zero points are of several types";
  },
  record: (call, recorder) => recordBlocks(recorder, workOf(call)),
});
