/** `pages()`: the step from model to model that a session is given to run on pages; exported decoders are rewritten on the way. */
import { InsituError } from "../base/error.js";
import type { Model } from "../onnx/model.js";
import { pageModel, type PagesOptions } from "./pages-model.js";

/** A change of model for `InferenceSession.create(path, { change: pages() })`. */
export function pages(options: PagesOptions = {}): (model: Model) => Promise<Model> {
  const { cacheType = "same", layout = "NHSD" } = options;
  const types = ["same", "int8", "float8e4m3fn", "float8e5m2"];
  if (!types.includes(cacheType))
    throw new InsituError(
      "invalid-argument",
      `option cacheType must be one of ${types.join(", ")}, got "${cacheType}"`,
    );
  if (layout !== "Norm" && layout !== "NHSD")
    throw new InsituError("invalid-argument", `option layout must be "Norm" or "NHSD", got "${String(layout)}"`);
  return async (model) => {
    const { rewriteIfGrowing } = await import("../rewrite/rewrite.js");
    // Windows are attributes of Attention from opset 25 on, and masks before.
    return pageModel(rewriteIfGrowing(model, { opset: 25 }), options);
  };
}
