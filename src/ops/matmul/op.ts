/** MatMul: the matrix product with numpy's rules for vectors and batches. */
import { defineOp, tensor } from "../../graph/op.js";
import { matmulShape, multiplyViews, productTypes, matmulSteps } from "../shared/families/matmul.js";

/** A · B. */
export const MatMul = defineOp({
  name: "MatMul",
  since: 1,
  types: { T: productTypes },
  inputs: { A: tensor("T"), B: tensor("T") },
  outputs: { Y: tensor("T") },

  infer: (call) => ({ Y: { shape: matmulShape(call, call.inputs.A.shape, call.inputs.B.shape) } }),

  work: (call) => matmulSteps(call, call.inputs.A.shape, call.inputs.B.shape),

  reference: ({ inputs, outputs }) => multiplyViews(inputs.A, inputs.B, outputs.Y),
});
