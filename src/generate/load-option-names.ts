/** The names of the options that a language model takes beside those of a generation, as one list for each function. */
import type { OptionNames } from "../base/option-names.js";
import { sessionOptionNames } from "../session/options.js";
import type { BeamOptions } from "./beams.js";
import type { LoadLanguageModelOptions } from "./prepare-model.js";
import { type GenerateOptions, generateOptionNames } from "./options.js";
import { cacheOptionNames } from "../engine/paged-decoder.js";

/** Of `CausalLM.load`. */
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

/** Of `beamSearch`. */
export const beamSearchOptionNames: OptionNames<GenerateOptions & Partial<BeamOptions>> = {
  ...generateOptionNames,
  beams: true,
  lengthPenalty: true,
};
