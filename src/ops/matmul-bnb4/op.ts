/** MatMulBnb4: a product with weights of 4 bits as bitsandbytes makes them: FP4 or NF4, in blocks over all rows one behind the other. */
import { flag, int, required } from "../../graph/attribute.js";
import { defineOp, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { isBlockSize } from "../shared/loops/low-bits.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { eachWithEach } from "../shared/rules/work.js";
import { levels } from "./levels.js";

const floats: readonly ElementType[] = ["float32", "float16", "bfloat16"];

/** A · dequantized(B)ᵀ, or A · dequantized(B) without transB; B holds N rows of K values. */
export const MatMulBnb4 = defineOp({
  name: "MatMulBnb4",
  domain: "com.microsoft",
  since: 1,
  types: { T1: floats, T2: ["uint8"] },
  inputs: { A: tensor("T1"), B: tensor("T2"), absmax: tensor("T1") },
  outputs: { Y: tensor("T1") },
  attrs: {
    K: required(int()),
    N: required(int()),
    block_size: required(int()),
    quant_type: required(int()),
    training_mode: flag(false),
    transB: flag(true),
  },

  infer(call) {
    const { A, B, absmax } = call.inputs;
    const { K, N, block_size: block, quant_type: kind, transB } = call.attrs;
    call.check(K > 0 && N > 0, () => `K and N must be positive, got ${K} and ${N}`, "invalid-argument");
    call.check(
      isBlockSize(block),
      () => `block_size must be a power of 2 from 16 on, got ${block}`,
      "invalid-argument",
    );
    call.check(
      kind === 0 || kind === 1,
      () => `quant_type must be 0 (FP4) or 1 (NF4), got ${kind}`,
      "invalid-argument",
    );
    checkRank(call, "absmax", absmax, 1);
    const bytes = Math.ceil((N * K) / 2);
    const held = B.shape?.reduce<number | undefined>(
      (all, dim) => (all === undefined || typeof dim !== "number" ? undefined : all * dim),
      1,
    );
    call.check(held === undefined || held === bytes, () => `B must hold ${bytes} bytes, got ${held}`);
    if (absmax.shape !== undefined)
      unifyDims(call, absmax.shape[0], Math.ceil((N * K) / block), "absmax must have one entry for each block");
    const { shape } = A;
    if (shape === undefined) return { Y: {} };
    call.check(shape.length > 0, "A must have at least 1 dimension, got a scalar");
    unifyDims(call, shape.at(-1)!, transB ? K : N, `the last dimension of A must be ${transB ? "K" : "N"}`);
    return { Y: { shape: [...shape.slice(0, -1), transB ? N : K] } };
  },

  work: ({ inputs, attrs }) => eachWithEach(inputs.A) * (attrs.transB ? attrs.N : attrs.K),

  reference(call) {
    const { A, B, absmax } = call.inputs;
    const { K, N, block_size: block, quant_type: kind, transB } = call.attrs;
    if (call.outputs.Y.size === 0) return;
    const [values, bytes, scales] = [readNumbers(A), readNumbers(B), readNumbers(absmax)];
    const table = levels[kind];
    // The first of two values lies in the upper half of a byte.
    const weight = (at: number): number =>
      table[(bytes[Math.floor(at / 2)] >> (at % 2 === 0 ? 4 : 0)) & 15] * scales[Math.floor(at / block)];
    const [inner, outer] = transB ? [K, N] : [N, K];
    const rows = values.length / inner;
    const result = float64Scratch(rows * outer);
    const column = float64Scratch(inner);
    for (let n = 0; n < outer; n++) {
      for (let i = 0; i < inner; i++) column[i] = weight(transB ? n * K + i : i * K + n);
      for (let row = 0; row < rows; row++) {
        let sum = 0;
        for (let i = 0; i < inner; i++) sum += values[row * inner + i] * column[i];
        result[row * outer + n] = sum;
      }
    }
    writeNumbers(call.outputs.Y, result);
  },
});
