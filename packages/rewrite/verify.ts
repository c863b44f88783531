/**
 * The rewritten model checked against the one it came from: the same shapes in the same words everywhere but in the caches, and nothing
 * beside caches and masks that knows their capacity. What fails here would be a wrong model, so it is refused.
 */
import { InsituError } from "#insitu/base/error.js";
import { buildGraph } from "#insitu/graph/build.js";
import { type Dim, isKnown, type Shape, shapeText, symbol, symbolsOf } from "#insitu/graph/dim.js";
import type { Fact } from "#insitu/graph/fact.js";
import type { Graph } from "#insitu/graph/graph.js";
import { type Facts, inferBody } from "#insitu/graph/infer.js";
import type { Model } from "#insitu/onnx/model.js";
import { operators } from "#insitu/ops/index.js";
import type { Analysis } from "./analysis.js";
import { valuesByName } from "./resolve.js";
import { cacheAxis } from "./roles.js";

/** The word for the caches' rows. */
const capacity: Dim = symbol("%capacity");

/** The rewritten graph and its facts, in words. */
interface Verified {
  readonly graph: Graph;
  readonly facts: Facts;
}

/** Checks a rewritten model; throws, naming the node, where it would not do what the original does. */
export function verify(model: Model, analysis: Analysis, widened: ReadonlyMap<string, number>): Verified {
  const graph = buildGraph(model, operators);
  const before = valuesByName(analysis.whole);
  const trails = new Map(analysis.trails.map((trail) => [trail.past.name, trail]));
  const inputs = graph.inputs.map((value): Fact => {
    const old = before.get(value.name)?.fact;
    const trail = trails.get(value.name);
    if (trail !== undefined) return { type: old!.type, shape: old!.shape!.with(cacheAxis(trail)!, capacity) };
    const axis = widened.get(value.name);
    if (old !== undefined && axis !== undefined) return { type: old.type, shape: old.shape!.with(axis, capacity) };
    if (old?.shape !== undefined && value.name !== "position_ids") return { type: old.type, shape: old.shape };
    const shape = value.declared?.shape;
    const { samples, tokens } = analysis;
    return {
      type: value.declared!.type!,
      shape: shape?.length === 2 ? [shape[0] === 1 ? 1 : samples, tokens] : shape && [samples],
    };
  });
  const facts: Facts = new Map();
  try {
    inferBody(graph, inputs, facts);
  } catch (error) {
    if (!(error instanceof InsituError)) throw error;
    throw new InsituError("invalid-graph", `the rewritten model would not fit together: ${error.message}`, {
      cause: error,
    });
  }
  const caches = new Set(analysis.trails.map(({ present }) => present.name));
  const inferred = inferredBefore(analysis);
  for (const node of graph.nodes) {
    for (const value of node.outputs) {
      if (value === undefined || caches.has(value.name)) continue;
      const [now, then] = [facts.get(value), before.get(value.name)?.fact];
      if (now === undefined || then === undefined) continue;
      if (mentionsCapacity(now))
        throw new InsituError(
          "invalid-graph",
          `${node.label} reads a cache in a way that is not understood: "${value.name}" would be ${shapeText(now.shape)}`,
        );
      if (!sameButForSamples(then.shape, now.shape) && !sameButForSamples(inferred().get(value.name), now.shape))
        throw new InsituError(
          "invalid-graph",
          `${node.label} would make "${value.name}" ${shapeText(now.shape)} instead of ${shapeText(then.shape)} once positions differ between samples`,
        );
    }
  }
  return { graph, facts };
}

/** Shapes as they follow from the inputs of the model as it was, by name: those that its file only declares are not among them. Asked for where that matters. */
function inferredBefore({ whole }: Analysis): () => ReadonlyMap<string, Shape> {
  let known: Map<string, Shape> | undefined;
  return () => {
    if (known !== undefined) return known;
    const facts: Facts = new Map();
    inferBody(
      whole,
      whole.inputs.map(({ fact }) => fact!),
      facts,
    );
    known = new Map();
    for (const [{ name }, { shape }] of facts) if (shape !== undefined) known.set(name, shape);
    return known;
  };
}

function mentionsCapacity({ shape, integers }: Fact): boolean {
  return [...(shape ?? []), ...(integers ?? [])].some((dim) => !isKnown(dim) && symbolsOf(dim).has(String(capacity)));
}

/** True if the shapes are the same, save that what one entry served may have one for each sample now. */
function sameButForSamples(then: Shape | undefined, now: Shape | undefined): boolean {
  if (then === undefined || now === undefined) return true;
  const missing = now.length - then.length;
  // A list of positions has become one for each sample.
  if (missing === 1 && String(now[0]) === "batch") return sameButForSamples([1, ...then], now);
  return (
    missing === 0 &&
    then.every(
      (dim, axis) =>
        String(dim) === String(now[axis]) || isUnknown(dim) || (dim === 1 && String(now[axis]) === "batch"),
    )
  );
}

const isUnknown = (dim: Dim): boolean => !isKnown(dim) && String(dim).includes("?");
