/**
 * DequantizeMatMul: a product with weights that stay quantized. No operator of ONNX's: `passes/keep-quantized-weights` makes it of
 * DequantizeLinear and MatMul, so that nobody holds the weights as floats.
 */
import { int } from "../../graph/attribute.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { matmulShape, multiplyViews, matmulSteps } from "../shared/families/matmul.js";
import { dequantize } from "../quantize/dequantize.js";
import { checkGranularity } from "../quantize/granularity.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";

/** A · DequantizeLinear(B) + bias, for any number of rows in A and a matrix B. */
export const DequantizeMatMul = defineOp({
  name: "DequantizeMatMul",
  domain: "insitu",
  since: 1,
  types: { T: ["float32"], W: ["int8", "uint8", "int4", "uint4"] },
  inputs: {
    A: tensor("T"),
    B: tensor("W"),
    scale: tensor("T"),
    zero_point: optional(tensor("W")),
    bias: optional(tensor("T")),
  },
  outputs: { Y: tensor("T") },
  attrs: { axis: int(1), block_size: int(0) },

  infer(call) {
    const { A, B, scale, zero_point, bias } = call.inputs;
    checkRank(call, "B", B, 2);
    checkRank(call, "bias", bias, 1);
    checkGranularity(call, B, scale, zero_point, { axis: call.attrs.axis, blockSize: call.attrs.block_size });
    if (B.shape !== undefined && bias?.shape !== undefined)
      unifyDims(call, bias.shape[0], B.shape[1], "bias must have an entry for every column of B");
    return { Y: { shape: matmulShape(call, A.shape, B.shape) } };
  },

  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference(call) {
    const { A, B, scale, zero_point, bias } = call.inputs;
    const { Y } = call.outputs;
    if (Y.size === 0) return;
    const weights = View.allocate("float32", B.shape);
    dequantize(call, B, scale, zero_point, weights, { axis: call.attrs.axis, blockSize: call.attrs.block_size });
    const product = View.allocate("float64", Y.shape);
    multiplyViews(A, weights, product);
    const values = product.data as Float64Array;
    if (bias !== undefined) {
      const added = readNumbers(bias);
      for (let i = 0; i < values.length; i++) values[i] += added[i % added.length];
    }
    writeNumbers(Y, values);
  },
});
