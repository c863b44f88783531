/** The passes in their order: what a session makes of a graph before it plans it. */
import type { Graph } from "../graph/graph.js";
import { inferGraph } from "../graph/infer.js";
import type { Op, OperatorSet } from "../graph/op.js";
import { cancelTransposes } from "./cancel-transposes.js";
import { foldConstants } from "./fold-constants.js";
import { foldRepeatedHeads } from "./fold-repeated-heads.js";
import { fuseAttention } from "./fuse-attention.js";
import { fuseCachedAttention } from "./fuse-cached-attention.js";
import { fuseGelu } from "./fuse-gelu.js";
import { fuseLayerNormalization } from "./fuse-layer-normalization.js";
import { fuseMatmulBias } from "./fuse-matmul-bias.js";
import { fuseAroundProjections, fuseProjections } from "./fuse-projection.js";
import { fuseRmsNormalization } from "./fuse-rms-normalization.js";
import { fuseRotaryEmbedding } from "./fuse-rotary-embedding.js";
import { fuseSkipNormalization } from "./fuse-skip-normalization.js";
import { fuseSwiglu } from "./fuse-swiglu.js";
import { fuseSwish } from "./fuse-swish.js";
import { keepQuantizedWeights } from "./keep-quantized-weights.js";
import { mergeEqualNodes } from "./merge-equal-nodes.js";
import { packAttentionHeads } from "./pack-attention-heads.js";
import { readTurnedWeights } from "./read-turned-weights.js";
import { removeDeadNodes } from "./remove-dead-nodes.js";
import { removeNoOps } from "./remove-no-ops.js";
import type { Pass } from "./rewrite.js";
import { type Activations, setActivations } from "./set-activations.js";
import { shareProducts } from "./share-products.js";

/** How much is rewritten: nothing, what is redundant, or also what is written out. */
export type Level = "disabled" | "basic" | "all";

const redundant: readonly Pass[] = [removeNoOps, mergeEqualNodes, cancelTransposes, removeNoOps];

const fusions: readonly Pass[] = [
  // Before the other: behind its subtraction a layer normalisation is the RMS of a deviation.
  fuseLayerNormalization,
  fuseRmsNormalization,
  fuseGelu,
  fuseSwish,
  fuseSwiglu,
  fuseRotaryEmbedding,
  fuseAttention,
  foldRepeatedHeads,
  packAttentionHeads,
  fuseMatmulBias,
  readTurnedWeights,
  keepQuantizedWeights,
  fuseSkipNormalization,
];

/** Passes that make an operator which not every backend has a kernel for, and its name. In this order: later ones take in what earlier ones made. */
const wideFusions: readonly { readonly makes: string; readonly pass: Pass }[] = [
  { makes: "Projection", pass: fuseProjections },
  { makes: "CachedAttention", pass: fuseCachedAttention },
  { makes: "Projection", pass: fuseAroundProjections },
  { makes: "SharedProducts", pass: shareProducts },
];

/** What is made of a graph, and for whom. */
export interface Preparation {
  readonly level?: Level;
  /** Operators of insitu's own that the backend does at once. */
  readonly hasKernel?: (op: Op) => boolean;
  readonly activations?: Activations;
}

/** The graph, inferred, after all passes of a level. */
export function optimizeGraph(
  given: Graph,
  operators: OperatorSet,
  { level = "all", hasKernel = () => false, activations = "file" }: Preparation,
): Graph {
  const graph = setActivations(given, activations);
  if (level === "disabled") return graph;
  const isDone = (name: string): boolean => {
    const op = operators.find("insitu", name, 1);
    return op !== undefined && hasKernel(op);
  };
  const wide = wideFusions.flatMap(({ makes, pass }) => (isDone(makes) ? [pass] : []));
  const passes = level === "basic" ? redundant : [...redundant, ...fusions, ...redundant, ...wide];
  const rewritten = passes.reduce((before, pass) => {
    const after = pass(before, operators);
    return after === before ? before : removeDeadNodes(after);
  }, graph);
  if (rewritten === graph) return graph;
  inferGraph(rewritten);
  return removeDeadNodes(foldConstants(rewritten));
}
