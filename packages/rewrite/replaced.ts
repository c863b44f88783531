/**
 * What each input said that a rewritten model has no more: whoever runs it in the place of the original asks whether what the original is
 * fed says just that. Tells what the analysis took for granted; finds nothing itself.
 */
import type { Model } from "#insitu/onnx/model.js";
import type { Analysis } from "./analysis.js";
import { takeBranch } from "./take-branch.js";

/**
 * What an input must say for the rewritten model to be the same: every entry is 1 (`valid`); entries count the new rows, from the first one
 * on (`rows`); the last valid row, or how many there are, for every sample (`last`, `total`); the branch with caches (a boolean); or it was
 * never read (`unread`). Undefined where that is not known.
 */
export type ReplacedMeaning = "valid" | "rows" | "last" | "total" | "unread" | boolean | undefined;

/** An input of the original that the rewritten model has no more. */
export interface ReplacedInput {
  readonly name: string;
  readonly means: ReplacedMeaning;
  /** True for a branch that matters also where there are no rows yet. */
  readonly always?: boolean;
}

/** The meanings of the inputs that were removed from a model. */
export function replacedInputs(
  model: Model,
  { whole, masks, counters, attentions }: Analysis,
  removed: readonly string[],
  mayOnlyContinue: boolean,
): readonly ReplacedInput[] {
  const branch = takeBranch(model, mayOnlyContinue);
  const [maskNames, counterNames] = [masks, counters].map((values) => new Set(values.map(({ name }) => name)));
  const read = new Set(whole.nodes.flatMap(({ inputs }) => inputs.flatMap((value) => value?.name ?? [])));
  // Those that count rows have them as operands, straight from the caller.
  const counted = (position: string): ReadonlySet<string> =>
    new Set(
      attentions.flatMap(({ node: { op, inputs } }) => {
        const value = inputs[Object.keys(op.inputs).indexOf(position)];
        return value === undefined ? [] : [value.name];
      }),
    );
  const [lasts, totals] = [counted("seqlens_k"), counted("total_sequence_length")];
  return removed.map((name) => {
    if (name === branch?.input) return { name, means: branch.value, always: branch.onlyContinues };
    if (maskNames.has(name)) return { name, means: "valid" };
    if (counterNames.has(name)) return { name, means: "rows" };
    if (!read.has(name)) return { name, means: "unread" };
    if (lasts.has(name)) return { name, means: "last" };
    return { name, means: totals.has(name) ? "total" : undefined };
  });
}
