/** `sampler()`: the step from model to model that a session is given so that a decoder on a device draws its own tokens. */
import { isModel, type Model } from "../onnx/model.js";

/** What a change of model is told. */
interface RunsOn {
  readonly isDevice: boolean;
}

/** A change of model for a session: what `before` makes of it, with a sampler behind its logits where it runs on a device. */
export function sampler(
  before?: (model: Model, on: RunsOn) => Model | Promise<Model>,
): (model: Model, on: RunsOn) => Promise<Model> {
  return async (model, on) => {
    const changed = before === undefined ? model : await before(model, on);
    if (!on.isDevice || !isModel(changed)) return changed;
    const { withSampling } = await import("../rewrite/sampling-model.js");
    return withSampling(changed);
  };
}
