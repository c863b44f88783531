/** The names of the options of `beamSearch`. Apart from what searches: a page whose model is in a worker reads them, and loads no engine. */
import type { OptionNames } from "../base/option-names.js";
import type { BeamOptions } from "./beams.js";
import { type GenerateOptions, generateOptionNames } from "./options.js";

export const beamSearchOptionNames: OptionNames<GenerateOptions & Partial<BeamOptions>> = {
  ...generateOptionNames,
  beams: true,
  lengthPenalty: true,
};
