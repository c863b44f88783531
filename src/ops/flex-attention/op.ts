/** FlexAttention (preview): attention whose scores and probabilities pass through subgraphs of the model. */
import { elementType, float, graph } from "../../graph/attribute.js";
import { type Dim, isKnown, sameDim, type Shape } from "../../graph/dim.js";
import { type Fact, factText } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { type Numbers, readNumbers, writeNumbers } from "../../tensor/access.js";
import type { ElementType } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";
import { scaledProducts, softmaxRows, weighedValues } from "./stages.js";
import { eachWithEach } from "../shared/rules/work.js";

/** Y = prob_mod(softmax(score_mod(Q·Kᵀ · scale)))·V; the subgraphs see tensors of the softmax type. */
export const FlexAttention = defineOp({
  name: "FlexAttention",
  domain: "ai.onnx.preview",
  since: 1,
  types: { T1: floats },
  inputs: { Q: tensor("T1"), K: tensor("T1"), V: tensor("T1") },
  outputs: { Y: tensor("T1") },
  attrs: { prob_mod: graph(), scale: float(), score_mod: graph(), softmax_precision: elementType() },

  infer(call) {
    const { Q, K, V } = call.inputs;
    const { softmax_precision: precision } = call.attrs;
    call.check(
      precision === undefined || floats.includes(precision),
      () => `softmax_precision must be ${floats.join(", ")}, got ${precision}`,
      "invalid-argument",
    );
    for (const [name, fact] of Object.entries({ Q, K, V })) checkRank(call, name, fact, 4);
    const scores = scoresShape(call, Q.shape, K.shape, V.shape);
    const fact: Fact = { type: softmaxType(Q.type, precision), shape: scores };
    for (const name of ["score_mod", "prob_mod"] as const) {
      if (call.attrs[name] === true) checkModified(call, name, fact, call.inferBody(name, [fact]));
    }
    if (Q.shape === undefined || V.shape === undefined) return {};
    return { Y: { shape: [scores?.[0] ?? Q.shape[0], Q.shape[1], Q.shape[2], V.shape[3]] } };
  },

  work: ({ inputs }) => eachWithEach(inputs.Q, inputs.K),

  reference(call) {
    const { inputs, outputs, attrs } = call;
    const { Q, K, V } = inputs;
    const type = softmaxType(Q.type, attrs.softmax_precision);
    const shape = [Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2]];
    const modify = (name: "score_mod" | "prob_mod", values: Float64Array): Numbers => {
      const view = View.allocate(type, shape);
      writeNumbers(view, values);
      if (attrs[name] !== true) return readNumbers(view);
      const modified = call.run(name, [view]);
      checkModified(call, name, view, modified);
      return readNumbers(modified[0]);
    };
    const scores = modify("score_mod", scaledProducts(Q, K, attrs.scale ?? 1 / Math.sqrt(Q.shape[3])));
    const weights = modify("prob_mod", softmaxRows(scores, K.shape[2], type));
    writeNumbers(outputs.Y, weighedValues(weights, V, shape));
  },
});

/** Half floats are computed in float32 unless the node says otherwise. */
const softmaxType = (type: ElementType, precision: ElementType | undefined): ElementType =>
  precision ?? (type === "float64" ? type : "float32");

function scoresShape(
  call: CallContext,
  q: Shape | undefined,
  k: Shape | undefined,
  v: Shape | undefined,
): Shape | undefined {
  const agree = (a: Dim | undefined, b: Dim | undefined, rule: string): Dim | undefined =>
    a === undefined || b === undefined ? (a ?? b) : unifyDims(call, a, b, rule);
  const batch = agree(
    agree(q?.[0], k?.[0], "Q and K must agree in the batch"),
    v?.[0],
    "Q, K and V must agree in the batch",
  );
  const kvHeads = agree(k?.[1], v?.[1], "K and V must have the same number of heads");
  const keys = agree(k?.[2], v?.[2], "K and V must have the same length");
  agree(q?.[3], k?.[3], "Q and K must have the same head size");
  const heads = q?.[1];
  if (heads !== undefined && kvHeads !== undefined && isKnown(heads) && isKnown(kvHeads)) {
    call.check(
      kvHeads > 0 && heads % kvHeads === 0,
      () => `the number of heads of Q must be a multiple of that of K, got ${heads} and ${kvHeads}`,
    );
  }
  return q === undefined || batch === undefined || keys === undefined ? undefined : [batch, q[1], q[2], keys];
}

/** Fails unless a modifier gave one tensor of the type and shape that it took. */
function checkModified(
  call: CallContext,
  name: string,
  given: { type: ElementType; shape: Shape | undefined },
  got: readonly { type: ElementType; shape: Shape | undefined }[],
): void {
  call.check(got.length === 1, () => `${name} must give one output, got ${got.length}`, "invalid-graph");
  const { type, shape } = got[0];
  const fits =
    shape === undefined ||
    given.shape === undefined ||
    (shape.length === 4 &&
      shape.every((dim, axis) => !isKnown(dim) || !isKnown(given.shape![axis]) || sameDim(dim, given.shape![axis])));
  call.check(
    type === given.type && fits,
    () => `${name} must keep type and shape, got ${factText({ type, shape })} for ${factText(given)}`,
  );
}
