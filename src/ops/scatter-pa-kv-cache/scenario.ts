/**
 * Which of its scenarios a call of ScatterPaKvCache is: told by the modes and by which operands are there, never by data.
 * Refuses the combinations that no scenario has.
 */
import { shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import type { View } from "../../tensor/view.js";
import type { PagedLayout } from "../shared/paged/layouts.js";

/** The known values of scatter_mode. */
export const scatterModes = ["None", "Nct", "Alibi", "Rope", "Omni", "NHSD"] as const;

/** The attributes of ScatterPaKvCache. */
export interface ScatterAttributes {
  readonly cache_mode: "Norm" | "PA_NZ";
  readonly scatter_mode: (typeof scatterModes)[number];
  readonly strides: readonly number[];
  readonly offsets: readonly number[];
  readonly check: boolean;
  readonly hifloat8: boolean;
}

/** The operands of ScatterPaKvCache, as facts or as views. */
export interface ScatterOperands<V> {
  readonly key: V;
  readonly key_cache: V;
  readonly slot_mapping: V;
  readonly value: V | undefined;
  readonly value_cache: V | undefined;
  readonly compress_lens: V | undefined;
  readonly compress_seq_offset: V | undefined;
  readonly seq_lens: V | undefined;
}

/**
 * `tokens`: each token has its slot. `runs`: each head of each sequence has a run of slots, filled with its last tokens
 * (`last`), with all but a window that is replaced by its mean (`mean`), or with all but a window (`drop`).
 */
export type Scenario =
  | { readonly kind: "tokens"; readonly layout: PagedLayout; readonly strided: boolean }
  | { readonly kind: "runs"; readonly rule: "last" | "mean" | "drop"; readonly padded: boolean };

/** True for an operand that is left out, or is the rank-0 tensor that stands for one. */
export const isLeftOut = (operand: Fact | View | undefined): boolean =>
  operand === undefined || operand.shape?.length === 0;

/** The scenario of a call. Fails where modes and operands do not go together. */
export function scenarioOf(
  call: CallContext & { readonly attrs: ScatterAttributes; readonly inputs: ScatterOperands<Fact | View> },
): Scenario {
  const { cache_mode, scatter_mode } = call.attrs;
  const { value, value_cache, key } = call.inputs;
  call.check(
    cache_mode === "Norm" || scatter_mode === "None",
    () => `cache_mode "PA_NZ" goes with scatter_mode "None" only, got "${scatter_mode}"`,
    "invalid-argument",
  );
  call.check(
    isLeftOut(value) === isLeftOut(value_cache),
    () =>
      isLeftOut(value)
        ? "value_cache is given without value; give both, or neither to write keys only"
        : "value is given without value_cache; give both, or neither to write keys only",
    "invalid-argument",
  );
  const padded =
    scatter_mode === "None" &&
    cache_mode === "Norm" &&
    (key.shape?.length === 4 || call.inputs.compress_lens !== undefined);
  if (isLeftOut(value)) {
    call.check(
      cache_mode === "Norm" && (scatter_mode === "None" || scatter_mode === "Nct") && !padded,
      () =>
        `without value and value_cache, cache_mode must be "Norm", scatter_mode "None" or "Nct" and nothing compressed; got cache_mode "${cache_mode}", scatter_mode "${scatter_mode}" and key ${key.type}${shapeText(key.shape)}`,
      "invalid-argument",
    );
  }
  return modeScenario(call, padded);
}

function modeScenario(
  call: CallContext & { readonly attrs: ScatterAttributes; readonly inputs: ScatterOperands<unknown> },
  padded: boolean,
): Scenario {
  const { cache_mode, scatter_mode } = call.attrs;
  const tokens = (layout: PagedLayout, strided = false): Scenario => {
    checkCompressing(call, []);
    return { kind: "tokens", layout, strided };
  };
  const runs = (rule: "last" | "mean" | "drop"): Scenario => {
    const offsets = ["compress_seq_offset"] as const;
    checkCompressing(call, ["compress_lens", "seq_lens", ...(rule === "last" ? [] : offsets)]);
    return { kind: "runs", rule, padded };
  };
  switch (scatter_mode) {
    case "None":
      if (cache_mode === "PA_NZ") return tokens("PA_NZ");
      if (!padded) return tokens("Norm");
      return runs(call.inputs.compress_seq_offset === undefined ? "last" : "mean");
    case "Nct":
      return tokens("Norm", true);
    case "NHSD":
      return tokens("NHSD");
    case "Alibi":
      return runs("last");
    case "Rope":
      return runs("mean");
    case "Omni":
      return runs("drop");
    default:
      return scatter_mode satisfies never;
  }
}

const compressing = ["compress_lens", "compress_seq_offset", "seq_lens"] as const;

/** Fails unless of the compressing operands exactly those that the mode needs are there. */
function checkCompressing(
  call: CallContext & { readonly attrs: ScatterAttributes; readonly inputs: ScatterOperands<unknown> },
  needed: readonly (typeof compressing)[number][],
): void {
  const { cache_mode, scatter_mode } = call.attrs;
  for (const name of compressing) {
    const given = call.inputs[name] !== undefined;
    if (given === needed.includes(name)) continue;
    const mode = `cache_mode "${cache_mode}" with scatter_mode "${scatter_mode}"`;
    call.fail(
      given
        ? `${mode} takes no ${name}${scatter_mode === "None" ? ": tokens are compressed with a key of 4 dimensions, or with scatter_mode Alibi, Rope or Omni" : ""}`
        : `${mode}${scatter_mode === "None" ? " and a key of 4 dimensions" : ""} needs ${name}`,
      "invalid-argument",
    );
  }
}
