/** Gemm: the matrix product with transposes, factors and an addend. */
import { flag, float } from "../../graph/attribute.js";
import { isKnown, shapeText, unknownDim } from "../../graph/dim.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { type Operand, multiplyOperands, operandOf, productTypes, storeOperand } from "../shared/families/matmul.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { eachWithEach } from "../shared/rules/work.js";

/** Y = alpha · A' · B' + beta · C, where ' transposes if asked to. */
export const Gemm = defineOp({
  name: "Gemm",
  since: 7,
  types: { T: productTypes },
  inputs: { A: tensor("T"), B: tensor("T"), C: optional(tensor("T")) },
  outputs: { Y: tensor("T") },
  attrs: { alpha: float(1), beta: float(1), transA: flag(false), transB: flag(false) },

  infer(call) {
    const { A, B, C } = call.inputs;
    checkRank(call, "A", A, 2);
    checkRank(call, "B", B, 2);
    checkRank(call, "C", C, 0, 1, 2);
    const [m, k] = call.attrs.transA ? [A.shape?.[1], A.shape?.[0]] : [A.shape?.[0], A.shape?.[1]];
    const [inner, n] = call.attrs.transB ? [B.shape?.[1], B.shape?.[0]] : [B.shape?.[0], B.shape?.[1]];
    if (k !== undefined && inner !== undefined) unifyDims(call, k, inner, "A and B must agree in the inner dimension");
    const shape = [m ?? unknownDim(), n ?? unknownDim()];
    C?.shape?.forEach((dim, axis) => {
      const target = shape[axis + 2 - C.shape!.length];
      const fits = !isKnown(dim) || dim === 1 || !isKnown(target) || dim === target;
      call.check(fits, () => `C must broadcast to ${shapeText(shape)}, got ${shapeText(C.shape)}`);
    });
    return { Y: { shape } };
  },

  work: ({ inputs: { A, B }, attrs }) => eachWithEach(A, { ...B, shape: B.shape && [B.shape[attrs.transB ? 0 : 1]] }),

  reference({ inputs, outputs, attrs }) {
    const { A, B, C } = inputs;
    const { Y } = outputs;
    const { alpha, beta, transA, transB } = attrs;
    // Nothing is wanted: the weights need not be read.
    if (Y.size === 0) return;
    const k = A.shape[transA ? 0 : 1];
    const sizes = { m: Y.shape[0], k, n: Y.shape[1] };
    const left = operandOf(transA ? A.transpose([1, 0]) : A);
    const result = multiplyOperands(left, operandOf(B), { sizes, a: [0], b: [0] }, transB);
    // A factor of 0 leaves C out altogether, as in BLAS: its NaNs and infinities do not show.
    const addend = C === undefined || beta === 0 ? undefined : operandOf(C.broadcastTo(Y.shape));
    combine(result, addend, alpha, beta, Y.type === "uint32" || Y.type === "uint64");
    storeOperand(Y, result);
  },
});

/** result = alpha · result + beta · addend, in place. Integers stay exact where both factors are whole, else they truncate. */
function combine(result: Operand, addend: Operand | undefined, alpha: number, beta: number, unsigned: boolean): void {
  const whole = Number.isInteger(alpha) && Number.isInteger(beta);
  if (result.kind === "wide") {
    const { values } = result;
    const read = (value: bigint): bigint => (unsigned ? BigInt.asUintN(64, value) : value);
    for (let i = 0; i < values.length; i++) {
      const c = (addend?.values[i] as bigint | undefined) ?? 0n;
      if (whole) values[i] = BigInt(alpha) * values[i] + BigInt(beta) * c;
      else values[i] = truncated(alpha * Number(read(values[i])) + (addend === undefined ? 0 : beta * Number(c)));
    }
    return;
  }
  const { values, kind } = result;
  for (let i = 0; i < values.length; i++) {
    const c = addend?.values[i] as number | undefined;
    if (kind === "float") values[i] = c === undefined ? alpha * values[i] : alpha * values[i] + beta * c;
    else if (whole) values[i] = Math.imul(alpha, values[i]) + Math.imul(beta, c ?? 0);
    else values[i] = alpha * signed(values[i], unsigned) + beta * signed(c ?? 0, unsigned);
  }
}

const signed = (value: number, unsigned: boolean): number => (unsigned ? value >>> 0 : value);

const truncated = (value: number): bigint => (Number.isFinite(value) ? BigInt(Math.trunc(value)) : 0n);
