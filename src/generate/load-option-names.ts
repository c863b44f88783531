/** The names of the options of `CausalLM.load`. */
import type { OptionNames } from "../base/option-names.js";
import { sessionOptionNames } from "../session/options.js";
import type { LoadLanguageModelOptions } from "./prepare-model.js";
import { cacheOptionNames } from "../engine/paged-decoder.js";

export const loadLanguageModelOptionNames: OptionNames<LoadLanguageModelOptions> = {
  ...sessionOptionNames,
  ...cacheOptionNames,
  context: true,
  chunk: true,
  sinks: true,
  variant: true,
  chatTemplate: true,
  toolFormat: true,
  keep: true,
};
