/** Steps from model to model that a session is given: `withPickedRows()` computes logits of those rows that are asked for, `withDrawnTokens()` lets a decoder on a device draw its own tokens. */
import { isModel, type Model } from "../onnx/model.js";

/** What a change of model is told. */
interface RunsOn {
  readonly isDevice: boolean;
}

type Change = (model: Model, on: RunsOn) => Model | Promise<Model>;

/** A change of model for a session: what `before` makes of it, with logits of the rows that are asked for and of no others, where its last product can be told. */
export function withPickedRows(before?: Change): (model: Model, on: RunsOn) => Promise<Model> {
  return async (model, on) => {
    const changed = before === undefined ? model : await before(model, on);
    if (!isModel(changed)) return changed;
    const { withLogitRows } = await import("#insitu/rewrite/logit-rows-model.js");
    return withLogitRows(changed);
  };
}

/** A change of model for a session: what `before` makes of it, with a sampler behind its logits where it runs on a device. */
export function withDrawnTokens(before?: Change): (model: Model, on: RunsOn) => Promise<Model> {
  return async (model, on) => {
    const changed = before === undefined ? model : await before(model, on);
    if (!on.isDevice || !isModel(changed)) return changed;
    const { withSampling } = await import("#insitu/rewrite/sampling-model.js");
    return withSampling(changed);
  };
}
