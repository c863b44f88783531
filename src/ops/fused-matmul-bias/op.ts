/** MatMulBias: a linear layer in one. No operator of ONNX's: `passes/fuse-matmul-bias` makes it of MatMul and Add, since Gemm is for matrices alone. */
import { defineOp, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { matmulShape, multiplyViews, matmulSteps } from "../shared/families/matmul.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

/** A · B + bias, for any number of rows in A, a matrix B and a bias for each of its columns. */
export const MatMulBias = defineOp({
  name: "MatMulBias",
  domain: "insitu",
  since: 1,
  types: { T: floats },
  inputs: { A: tensor("T"), B: tensor("T"), bias: tensor("T") },
  outputs: { Y: tensor("T") },

  infer(call) {
    const { A, B, bias } = call.inputs;
    checkRank(call, "B", B, 2);
    checkRank(call, "bias", bias, 1);
    if (B.shape !== undefined && bias.shape !== undefined)
      unifyDims(call, bias.shape[0], B.shape[1], "bias must have an entry for every column of B");
    return { Y: { shape: matmulShape(call, A.shape, B.shape) } };
  },

  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference({ inputs: { A, B, bias }, outputs: { Y } }) {
    const product = View.allocate("float64", Y.shape);
    multiplyViews(A, B, product);
    const values = product.data as Float64Array;
    const added = readNumbers(bias);
    for (let i = 0; i < values.length; i++) values[i] += added[i % added.length];
    writeNumbers(Y, values);
  },
});
