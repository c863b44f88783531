/** What rewriting would do with a model whose caches grow, without doing it: what it would change, which caches resist. */
import { InsituError } from "#insitu/base/error.js";
import type { Model } from "#insitu/onnx/model.js";
import { analyse, graphWithGrowingCaches } from "#insitu/rewrite/analysis.js";
import { prepareModel } from "#insitu/rewrite/prepare-model.js";
import type { RewriteReport } from "#insitu/rewrite/report.js";
import { rewrite } from "#insitu/rewrite/rewrite.js";

/** What rewriting would do. */
interface RewriteOutlook {
  /** True if every cache can be rewritten. */
  readonly possible: boolean;
  /** What would change, or why it cannot. */
  readonly changes: string;
  /** The same for tools. */
  readonly report?: RewriteReport;
  /** Caches that resist, each with the node where its trail ends. */
  readonly resisting: readonly { readonly input: string; readonly node: string | undefined; readonly reason: string }[];
}

/** Looks at what rewriting would do; undefined for a model that has no cache to rewrite. `open` reads what decides masks as well. */
export async function rewriteOutlook(
  described: Model,
  open: () => Promise<Model>,
): Promise<RewriteOutlook | undefined> {
  try {
    if (graphWithGrowingCaches(prepareModel(described, 24)) === undefined) return undefined;
    const model = await open();
    const { resisting } = analyse(prepareModel(model, 24));
    const listed = resisting.map(({ input, node, reason }) => ({
      input,
      node: node && (node.name || node.outputs.find((value) => value !== undefined)?.name),
      reason,
    }));
    if (listed.length > 0) return { possible: false, changes: "", resisting: listed };
    const { report } = rewrite(model);
    const before = [...new Set(report.caches.map(({ from }) => from))].join(" and ");
    const masks = [...new Set(report.attentions.map(({ mask }) => mask))].join("; ");
    const removed = report.inputs.removed.length === 0 ? "" : `, ${report.inputs.removed.join(", ")} would go`;
    const changes = `${report.caches.length} caches from ${before} to TensorScatter, ${report.attentions.length} attentions (${masks}), opset ${report.opset.to}; ${report.inputs.added.join(", ")} would be added${removed}`;
    return { possible: true, changes, report, resisting: [] };
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
    return { possible: false, changes: error.message, resisting: [] };
  }
}

/** The outlook as text. `inPlace`: every cache is written in place as it is. */
export function outlookText({ possible, changes, resisting }: RewriteOutlook, inPlace: boolean): string {
  const gain = inPlace ? "give the caches a fixed capacity" : "make every cache written in place";
  if (possible) return `insitu rewrite would ${gain}: ${changes}`;
  const lines = resisting.map(({ input, reason }) => `  ${input}: ${reason}`);
  return [
    `insitu rewrite cannot ${inPlace ? gain : "make these caches ones that are written in place"}${changes === "" ? ":" : `: ${changes}`}`,
    ...lines,
  ].join("\n");
}
