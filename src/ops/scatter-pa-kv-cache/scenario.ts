/**
 * Which of its scenarios a call of ScatterPaKvCache is: told by the modes and by which operands are there, never by data.
 * Refuses the combinations that no scenario has.
 */
import { shapeText } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { flag, ints } from "../../graph/attribute.js";
import { type AttributeResults, type CallContext, optional, type PerParameter, tensor } from "../../graph/op.js";
import type { View } from "../../tensor/view.js";
import { modeOf, type PagedLayout } from "../shared/paged/layouts.js";

/** The operands, in order. */
export const inputs = {
  key: tensor("K"),
  key_cache: tensor("K"),
  slot_mapping: tensor("I"),
  value: optional(tensor("V")),
  value_cache: optional(tensor("V")),
  compress_lens: optional(tensor("I")),
  compress_seq_offset: optional(tensor("I")),
  seq_lens: optional(tensor("I")),
};

/** The attributes. */
export const attrs = {
  cache_mode: modeOf(["Norm", "PA_NZ"], "Norm"),
  scatter_mode: modeOf(["None", "Nct", "Alibi", "Rope", "Omni", "NHSD"], "None"),
  strides: ints([1, 1]),
  offsets: ints([0, 0]),
  check: flag(false),
  hifloat8: flag(false),
};

/** The attributes of ScatterPaKvCache. */
export type ScatterAttributes = AttributeResults<typeof attrs>;

/** The operands of ScatterPaKvCache, as facts or as views. */
export type ScatterOperands<V> = PerParameter<typeof inputs, V>;

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
