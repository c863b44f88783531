/** FusedMatMul: numpy.matmul with the transpositions and the factor that stand around it in exported graphs. */
import { flag, float } from "../../graph/attribute.js";
import type { Shape } from "../../graph/dim.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { matmulShape, multiplyViews } from "../shared/families/matmul.js";
import { floats } from "../shared/rules/types.js";
import { eachWithEach } from "../shared/rules/work.js";
import { orderOf } from "./order.js";

function checkBatch(call: CallContext, a: Shape | undefined, b: Shape | undefined): void {
  for (const shape of [a, b]) {
    call.check(
      shape === undefined || shape.length > 2,
      () => `transBatchA and transBatchB need operands of at least 3 dimensions, got ${shape?.length}`,
    );
  }
  call.check(
    a === undefined || b === undefined || a.length === b.length,
    () => `transBatchA and transBatchB need operands of the same rank, got ${a?.length} and ${b?.length}`,
  );
}

/** alpha · A · B, each operand transposed as its attributes say. */
export const FusedMatMul = defineOp({
  name: "FusedMatMul",
  domain: "com.microsoft",
  since: 1,
  types: { T: floats },
  inputs: { A: tensor("T"), B: tensor("T") },
  outputs: { Y: tensor("T") },
  attrs: {
    alpha: float(1),
    transA: flag(false),
    transB: flag(false),
    transBatchA: flag(false),
    transBatchB: flag(false),
  },

  infer(call) {
    const { A, B } = call.inputs;
    const { transA, transB, transBatchA, transBatchB } = call.attrs;
    if (transBatchA || transBatchB) checkBatch(call, A.shape, B.shape);
    const seen = (shape: Shape | undefined, batch: boolean, matrix: boolean): Shape | undefined =>
      shape && orderOf(shape.length, batch, matrix).map((axis) => shape[axis]);
    return { Y: { shape: matmulShape(call, seen(A.shape, transBatchA, transA), seen(B.shape, transBatchB, transB)) } };
  },

  work: ({ inputs }) => eachWithEach(inputs.A, inputs.B),

  reference({ inputs: { A, B }, outputs: { Y }, attrs }) {
    const product = View.allocate("float64", Y.shape);
    multiplyViews(
      A.transpose(orderOf(A.rank, attrs.transBatchA, attrs.transA)),
      B.transpose(orderOf(B.rank, attrs.transBatchB, attrs.transB)),
      product,
    );
    const values = product.data as Float64Array;
    for (let i = 0; i < values.length; i++) values[i] *= attrs.alpha;
    writeNumbers(Y, values);
  },
});
