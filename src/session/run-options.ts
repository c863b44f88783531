/** The options of one run, insitu's own and onnxruntime's, checked. */
import { objectOf, optionsOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { checkRunOptions, type OnnxruntimeRunOptions, onnxruntimeRunOptionNames } from "./onnxruntime-options.js";
import { State } from "./state.js";

/** Options of `session.run`. */
export interface RunOptions extends OnnxruntimeRunOptions {
  /** The state that holds the caches: past inputs come from it, present outputs stay in it. */
  readonly state?: State | undefined;
}

const runOptionNames: OptionNames<RunOptions> = { ...onnxruntimeRunOptionNames, state: true };

/** What a caller gave; names that nobody knows are refused, but to programs for onnxruntime, which lets them be. */
export function runOptionsOf(given: RunOptions | undefined, isOnnxruntimes: boolean): RunOptions {
  const what = "'options' of a run";
  const options: RunOptions = isOnnxruntimes ? objectOf(what, given) : optionsOf(what, given, runOptionNames);
  checkRunOptions(options);
  const { state } = options;
  if (state !== undefined && !State.isState(state))
    throw new InsituError("invalid-state", `options.state must come from createState, got ${valueText(state)}`);
  return options;
}
