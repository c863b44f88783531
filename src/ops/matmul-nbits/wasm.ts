/**
 * MatMulNBits on WASM: reads the weights as ONNX lays them out. Activations are rounded to 16 bits in blocks, which keeps five digits;
 * with accuracy_level 4 and relaxed SIMD to 8 bits, which is what that level allows.
 */
import { quantizedBytes } from "../../kernels/exports.js";
import { elementCode } from "../../kernels/jobs.js";
import type { WasmKernel } from "../../kernels/wasm-kernel.js";
import { isProductType, type ProductType, productParts, recordConversion } from "../wasm-matmul.js";

/** A · dequantized(B)ᵀ + bias. */
export const matmulBlocks: WasmKernel = {
  op: "MatMulNBits",
  domain: "com.microsoft",
  accepts({ inputs: [a, , scales, zeros, groups, bias], outputs: [output], attrs }) {
    if (groups !== undefined) return "g_idx orders the blocks";
    if (!isProductType(a!.type) || !isProductType(scales!.type)) return `there is no kernel for ${a!.type}`;
    if (!a!.contiguous) return "rows have gaps";
    if (zeros !== undefined && zeros.type !== "uint8" && !isProductType(zeros.type))
      return `there is no kernel for zero points of ${zeros.type}`;
    if (bias !== undefined && (bias.type !== "float32" || !bias.contiguous)) return "the bias is not float32";
    if (![2, 4, 8].includes(attrs["bits"] as number)) return "there are kernels for 2, 4 and 8 bits";
    return output!.view.size > 0 ? true : "there is nothing to compute";
  },
  record({ inputs: [a, b, scales, zeros, , bias], outputs: [output], attrs }, recorder) {
    const k = attrs["K"] as number;
    const n = attrs["N"] as number;
    const bits = attrs["bits"] as number;
    const blockSize = attrs["block_size"] as number;
    const m = a!.view.size / k;
    const coarse = attrs["accuracy_level"] === 4 && recorder.relaxed && bits === 4 && blockSize >= 32;
    const precision = coarse ? 8 : 16;
    const sizes = quantizedBytes({ m, k, blockSize, bits, precision });
    const [values, aScales, aSums] = [
      recorder.temporary(sizes.values),
      recorder.temporary(sizes.scales),
      recorder.temporary(sizes.sums),
    ];
    recorder.run(
      "quantizeRows",
      {
        source: recorder.address(a!),
        values,
        scales: aScales,
        sums: aSums,
        type: elementCode[a!.type as ProductType],
        m,
        k,
        sourceRow: k,
        blockSize,
        bits,
        precision,
      },
      m >= 16 ? recorder.threads : 1,
    );
    const direct = output!.type === "float32";
    const c = direct ? recorder.address(output!) : recorder.temporary(m * n * 4);
    recorder.run(
      "matmulBlocks",
      {
        values,
        aScales,
        aSums,
        b: recorder.address(b!),
        scales: recorder.address(scales!),
        zeros: zeros === undefined ? 0 : recorder.address(zeros),
        bias: bias === undefined ? 0 : recorder.address(bias),
        c,
        scaleType: elementCode[scales!.type as ProductType],
        zerosType: zeros === undefined || zeros.type === "uint8" ? -1 : elementCode[zeros.type as ProductType],
        m,
        n,
        k,
        cRow: n,
        blockSize,
        bits,
        precision,
      },
      productParts(m * n * k, recorder),
    );
    if (!direct) recordConversion(recorder, c, output!, m * n);
  },
};
