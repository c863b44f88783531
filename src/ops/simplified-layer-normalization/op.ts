/**
 * SimplifiedLayerNormalization: what RMSNormalization was before ONNX had it. onnxruntime's exporters write it in ONNX's own domain,
 * where it never was; models that name onnxruntime's domain are served alike.
 */
import { elementType, float, int } from "../../graph/attribute.js";
import { isKnown, shapeText } from "../../graph/dim.js";
import { reuse } from "../../graph/effect.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { readNumbers, writeNumbers } from "../../tensor/access.js";
import { meanSquare, product } from "../shared/loops/rows.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { normalizeAxis } from "../shared/rules/shapes.js";
import { floats } from "../shared/rules/types.js";

const declare = (domain: string) =>
  defineOp({
    name: "SimplifiedLayerNormalization",
    domain,
    since: 1,
    types: { T: floats, U: ["float32", "float64"], V: floats },
    inputs: { X: tensor("T"), scale: tensor("V") },
    outputs: { Y: tensor("V"), inv_std_var: optional(tensor("U")) },
    attrs: { axis: int(-1), epsilon: float(Math.fround(1e-5)), stash_type: elementType("float32") },
    effects: { Y: reuse("X") },

    infer(call) {
      const { X, scale } = call.inputs;
      const type = call.attrs.stash_type;
      call.check(
        type === "float32" || type === "float64",
        () => `stash_type must be float32 or float64, got ${type}`,
        "invalid-argument",
      );
      const { shape } = X;
      if (shape === undefined) return { inv_std_var: { type } };
      const axis = normalizeAxis(call, call.attrs.axis, shape.length);
      const lead = shape.length - (scale.shape?.length ?? 0);
      const fits =
        lead >= 0 &&
        (scale.shape ?? []).every(
          (dim, at) => !isKnown(dim) || dim === 1 || !isKnown(shape[at + lead]) || dim === shape[at + lead],
        );
      call.check(fits, () => `scale must broadcast to X ${shapeText(shape)}, got ${shapeText(scale.shape)}`);
      return { Y: { shape }, inv_std_var: { type, shape: shape.map((dim, at) => (at < axis ? dim : 1)) } };
    },

    reference(call) {
      const { X, scale } = call.inputs;
      const { Y, inv_std_var } = call.outputs;
      const axis = normalizeAxis(call, call.attrs.axis, X.rank);
      const length = product(X.shape.slice(axis));
      const rows = product(X.shape.slice(0, axis));
      const values = readNumbers(X);
      const scales = readNumbers(scale.broadcastTo(X.shape));
      const result = float64Scratch(X.size);
      const inverses = float64Scratch(rows);
      for (let row = 0; row < rows; row++) {
        const [start, end] = [row * length, (row + 1) * length];
        inverses[row] = 1 / Math.sqrt(meanSquare(values, start, length) + call.attrs.epsilon);
        for (let i = start; i < end; i++) result[i] = values[i] * inverses[row] * scales[i];
      }
      writeNumbers(Y, result);
      if (inv_std_var !== undefined) writeNumbers(inv_std_var, inverses);
    },
  });

/** X / √(mean of squares + epsilon) · scale, over the axes from `axis` on. */
export const SimplifiedLayerNormalization = declare("");

/** The same under onnxruntime's domain. */
export const MicrosoftSimplifiedLayerNormalization = declare("com.microsoft");
