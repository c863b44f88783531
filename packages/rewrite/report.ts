/** What a rewrite did, for people and for tools. */
import type { ReplacedInput } from "./replaced.js";

/** One cache of the rewritten model. */
export interface CacheReport {
  /** The input with the past. */
  readonly input: string;
  /** The output with the present. */
  readonly output: string;
  /** The operator that added rows before. */
  readonly from: string;
  /** The node that writes rows now. */
  readonly node: string;
  /** The axis of the sequence. */
  readonly axis: number;
}

/** One attention of the rewritten model. */
export interface AttentionReport {
  /** The node's name. */
  readonly node: string;
  /** The cache that it reads keys from. */
  readonly keys: string;
  /** The cache that it reads values from. */
  readonly values: string;
  /** What became of its mask: `causal`, `causal, window 8`, `causal, bias`. */
  readonly mask: string;
}

/** Everything a rewrite did. */
export interface RewriteReport {
  /** The model's opset version before and after. */
  readonly opset: { readonly from: number; readonly to: number };
  /** The name or size of the caches' capacity. */
  readonly capacity: string | number;
  /** Every cache of the rewritten model. */
  readonly caches: readonly CacheReport[];
  /** Every attention of the rewritten model. */
  readonly attentions: readonly AttentionReport[];
  /** The model's inputs that came and went. */
  readonly inputs: { readonly added: readonly string[]; readonly removed: readonly string[] };
  /** The removed inputs, with the values for which both models give the same results. */
  readonly replaced: readonly ReplacedInput[];
  /** The input whose size along an axis says how many tokens a run adds; undefined where none does. */
  readonly tokens: { readonly name: string; readonly axis: number } | undefined;
  /** Values that are now computed from position_ids. */
  readonly positions: readonly string[];
  /** True if position_ids must be the rows' numbers (0, 1, 2, …), since the original model counted them itself. */
  readonly follows: boolean;
  /** The mask of padding that was kept, and whether hiding keys is all that it does; undefined where none was. */
  readonly padding: { readonly input: string; readonly hidesOnly: boolean } | undefined;
  /** Inputs that look like masks of the caches and are another's, such as an encoder's: they stay as they were. */
  readonly foreign: readonly string[];
  /** Nodes of the graph. */
  readonly nodes: { readonly before: number; readonly after: number };
  /** Further notes for users of the model. */
  readonly notes: readonly string[];
}

const capacityText = ({ capacity }: RewriteReport): string =>
  typeof capacity === "number" ? `capacity ${capacity}` : `capacity left open as "${capacity}"`;

/** The report as text. */
export function reportText(report: RewriteReport): string {
  const { caches, attentions, inputs, opset, positions, nodes, notes } = report;
  const masks = new Map<string, number>();
  for (const { mask } of attentions) masks.set(mask, (masks.get(mask) ?? 0) + 1);
  const before = new Map<string, number>();
  for (const { from } of caches) before.set(from, (before.get(from) ?? 0) + 1);
  const counted = (counts: ReadonlyMap<string, number>): string =>
    [...counts].map(([name, count]) => `${count} × ${name}`).join(", ");
  return [
    `caches: ${counted(before)} → ${caches.length} × TensorScatter, ${capacityText(report)}`,
    `attentions: ${counted(masks)}`,
    `inputs added: ${inputs.added.join(", ") || "none"}; removed: ${inputs.removed.join(", ") || "none"}`,
    ...(positions.length === 0 ? [] : [`made from position_ids now: ${positions.join(", ")}`]),
    `opset ${opset.from}${opset.to === opset.from ? "" : ` → ${opset.to}`}, nodes ${nodes.before} → ${nodes.after}`,
    ...notes,
  ].join("\n");
}
