/** `pages()`: the step from model to model that a session is given to run on pages; exported decoders are rewritten on the way. */
import { checkFlag, choiceOf, optionsOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { isModel, type Model } from "../onnx/model.js";
import type { PagesOptions } from "#insitu/rewrite/page-names.js";

export type { CacheType } from "#insitu/rewrite/page-names.js";

const pagesOptionNames: OptionNames<PagesOptions> = {
  cacheType: true,
  layout: true,
  perHead: true,
  packed: true,
  logitRows: true,
  longTexts: true,
  scores: true,
};

/** Makes a function that changes a model to a paged KV cache: `InferenceSession.create(path, { change: pages() })`. */
export function pages(given?: PagesOptions): (model: Model) => Promise<Model> {
  const options = optionsOf<PagesOptions>("the options of pages", given, pagesOptionNames);
  const { cacheType = "same" } = options;
  const types = ["same", "int8", "float8e4m3fn", "float8e5m2"];
  if (!types.includes(cacheType))
    throw new InsituError(
      "invalid-argument",
      `option cacheType must be one of ${types.join(", ")}, got ${valueText(cacheType)}`,
    );
  choiceOf("option layout", options.layout, ["Norm", "NHSD"], "NHSD");
  checkFlag("option perHead", options.perHead);
  checkFlag("option scores", options.scores);
  checkFlag("option logitRows", options.logitRows);
  checkFlag("option packed", options.packed);
  checkFlag("option longTexts", options.longTexts);
  if (options.packed === true && options.perHead === true)
    throw new InsituError("invalid-argument", "options packed and perHead do not go together: leave one of them out");
  return async (model) => {
    if (!isModel(model)) throw new InsituError("invalid-argument", `pages takes a model, got ${valueText(model)}`);
    const { rewriteIfGrowing } = await import("#insitu/rewrite/rewrite.js");
    const { pageModel } = await import("#insitu/rewrite/pages-model.js");
    // Windows are attributes of Attention from opset 25 on, and masks before.
    // Texts of many lengths share a run: positions alone tell which of them are long.
    const rowsByPosition = options.longTexts === true;
    const linear = rewriteIfGrowing(model, { opset: 25, rowsByPosition, shortTexts: !rowsByPosition });
    if (options.logitRows !== true) return pageModel(linear, options);
    const { withLogitRows } = await import("#insitu/rewrite/logit-rows-model.js");
    const picked = withLogitRows(linear);
    const { statesOf } = await import("#insitu/rewrite/pooled-states.js");
    // Logits that are not picked would be made for every token of a packed batch; states without rows read one text a sample.
    const packed = options.packed === true && picked !== linear && statesOf(linear).size === 0;
    return pageModel(picked, { ...options, packed });
  };
}
