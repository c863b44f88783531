/**
 * A decoder whose caches grow becomes one whose caches are written in place: TensorScatter into a fixed capacity, Attention over all of it,
 * lengths as data. Model in, model out; what is not understood is refused by name, and nothing is guessed.
 */
import { checkFlag } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import { valueText } from "#insitu/base/value-text.js";
import { isKnown, sameDim, sameShape } from "#insitu/graph/dim.js";
import type { Graph } from "#insitu/graph/graph.js";
import type { Model, ModelNode } from "#insitu/onnx/model.js";
import { type Analysis, analyse, graphWithGrowingCaches, requireUnderstood } from "./analysis.js";
import { changeDecoder } from "./decoder-edit.js";
import { withEffort } from "./effort.js";
import { oldestOpset, prepareModel } from "./prepare-model.js";
import { replacedInputs } from "./replaced.js";
import type { RewriteReport } from "./report.js";
import type { Blame } from "./resolve.js";
import { valuesByName } from "./resolve.js";
import { cacheAxis } from "./roles.js";
import { joinByPosition, takeShortTables } from "./rotary-tables.js";
import { takeBranch } from "./take-branch.js";
import { verify } from "./verify.js";

/** Options of `rewrite`. */
export interface RewriteOptions {
  /**
   * Rows of the caches.
   * @default a symbol, `capacity`
   */
  readonly capacity?: number | undefined;
  /**
   * 24 is for every runtime that has TensorScatter; 25 has sliding windows in Attention itself.
   * @default 24
   */
  readonly opset?: 24 | 25 | undefined;
  /**
   * Keeps the padding mask as an input, with the shape [batch, capacity].
   * @default false
   */
  readonly keepMask?: boolean | undefined;
  /**
   * Takes the cached branch of a decoder whose first run needs another one. You make the first runs with that other graph.
   * @default false
   */
  readonly mayOnlyContinue?: boolean | undefined;
  /**
   * Keeps only the rotary tables for short texts, where the model has others for long ones. You keep texts short.
   * @default false
   */
  readonly shortTexts?: boolean | undefined;
  /**
   * Positions are rows of the rotary tables, where the model has two of them: those for long texts stand behind those for short ones. You feed positions that
   * choose.
   * @default false
   */
  readonly rowsByPosition?: boolean | undefined;
}

/** Their names. */
export const rewriteOptionNames: OptionNames<RewriteOptions> = {
  capacity: true,
  opset: true,
  keepMask: true,
  mayOnlyContinue: true,
  shortTexts: true,
  rowsByPosition: true,
};

/** A rewritten model and what was done to it. */
export interface Rewritten {
  readonly model: Model;
  readonly report: RewriteReport;
}

/** Rewrites a decoder. Throws `invalid-graph`, naming the input and the node where the trail ended, for what it does not understand. */
export const rewrite = (model: Model, options: RewriteOptions = {}): Rewritten =>
  withEffort(model.graph, () => rewritten(model, options));

/** A model made ready to be rewritten, and its graph with facts. */
interface Looked {
  readonly prepared: Model;
  readonly graph: Graph;
}

/** `looked` is what is known of the model already, made ready with the same options. */
function rewritten(model: Model, options: RewriteOptions, looked?: Looked): Rewritten {
  const { opset = 24, keepMask = false, mayOnlyContinue = false } = options;
  if (opset !== 24 && opset !== 25)
    throw new InsituError("invalid-argument", `option opset must be 24 or 25, got ${valueText(opset)}`);
  checkFlag("option keepMask", keepMask);
  checkFlag("option shortTexts", options.shortTexts);
  checkFlag("option rowsByPosition", options.rowsByPosition);
  if (options.shortTexts === true && options.rowsByPosition === true)
    throw new InsituError(
      "invalid-argument",
      "options shortTexts and rowsByPosition exclude each other: give one of them",
    );
  const prepared = looked?.prepared ?? prepareModel(withTables(model, options), opset, mayOnlyContinue);
  const foreign = new Set<string>();
  for (let graph = looked?.graph; ; graph = undefined) {
    const did = attempt(model, prepared, analyse(prepared, foreign, graph), options);
    if ("model" in did) return did;
    // A mask of something else, an encoder's rows, may look like one of the caches'; once more, with its length as its own.
    const { value, node } = did.blame;
    if (node !== undefined || !did.analysis.masks.includes(value) || foreign.has(value.name))
      throw dependence(did.analysis, did.blame);
    foreign.add(value.name);
  }
}

/** The model rewritten as far as it is understood in this way; what stands against it where something does. */
function attempt(
  model: Model,
  prepared: Model,
  analysis: Analysis,
  options: RewriteOptions,
): Rewritten | { readonly analysis: Analysis; readonly blame: Blame } {
  const { opset = 24, keepMask = false, mayOnlyContinue = false } = options;
  requireUnderstood(analysis);
  checkMasks(model, analysis);
  checkCapacity(analysis, options.capacity);
  const capacity = options.capacity ?? fixedCapacity(analysis) ?? capacityName(prepared);
  const windows = opset >= 25;
  let blame: Blame | undefined;
  // Positions that all samples share are looked for where they have room for a batch; failing that, as plain lists.
  for (const mayChangeRank of [false, true]) {
    const changed = changeDecoder(prepared, analysis, { capacity, keepMask, windows, mayChangeRank });
    if ("value" in changed) {
      blame = changed;
      continue;
    }
    const { model: bare, widened, ...did } = changed;
    const verified = verify(bare, analysis, widened);
    const kept = withoutStale(bare, analysis, verified);
    const writers = new Map(model.graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
    const inputs = differences(model, kept);
    const report: RewriteReport = {
      ...did,
      caches: did.caches.map((cache) => ({ ...cache, from: formOf(writers.get(cache.output)) ?? cache.from })),
      opset: { from: model.opsets.get("") ?? 0, to: kept.opsets.get("") ?? 0 },
      capacity,
      inputs,
      padding: paddingOf(analysis, keepMask),
      foreign: [...analysis.foreign],
      replaced: replacedInputs(model, analysis, inputs.removed, mayOnlyContinue),
      nodes: { before: model.graph.nodes.length, after: kept.graph.nodes.length },
      notes: notesOf(model, mayOnlyContinue),
    };
    return { model: withMetadata(kept, report), report };
  }
  return { analysis, blame: blame! };
}

/** The model with the rotary tables that are asked for. */
const withTables = (model: Model, { shortTexts, rowsByPosition }: RewriteOptions): Model =>
  shortTexts === true ? takeShortTables(model) : rowsByPosition === true ? joinByPosition(model) : model;

/** The model rewritten where it has caches that are not written in place yet; the model itself where it has none. */
export const rewriteIfGrowing = (model: Model, options: RewriteOptions = {}): Model =>
  rewriteGrowing(model, options)?.model ?? model;

/** The same with what was done; undefined for a model that has no such caches. */
export function rewriteGrowing(model: Model, options: RewriteOptions = {}): Rewritten | undefined {
  if ((model.opsets.get("") ?? 0) < oldestOpset) return undefined;
  const prepared = prepareModel(model, options.opset ?? 24, options.mayOnlyContinue);
  const graph = graphWithGrowingCaches(prepared);
  if (graph === undefined) return undefined;
  if (withTables(model, options) !== model) return rewrite(model, options);
  return withEffort(model.graph, () => rewritten(model, options, { prepared, graph }));
}

/** Up to opset 23 a mask of one column is meant for every key; from 24 on it is one for the first key alone. */
function checkMasks({ opsets }: Model, { whole }: Analysis): void {
  if ((opsets.get("") ?? 0) >= 24) return;
  for (const { op, inputs, label } of whole.nodes) {
    if (op.name !== "Attention" || op.domain !== "" || inputs[3] === undefined || inputs[4] !== undefined) continue;
    const [keys, mask] = [inputs[1]?.fact?.shape, inputs[3].fact?.shape];
    const rows = keys?.at(keys.length === 4 ? 2 : 1);
    const columns = mask?.at(-1);
    if (columns !== undefined && rows !== undefined && isKnown(columns) && !sameDim(columns, rows))
      throw new InsituError(
        "unsupported-opset",
        `${label}: its mask has ${columns} columns for ${String(rows)} keys, which means something else from opset 24 on`,
      );
  }
}

/** Fixed shapes can be made larger, not smaller. */
function checkCapacity({ trails }: Analysis, capacity: number | undefined): void {
  if (capacity === undefined) return;
  if (!Number.isSafeInteger(capacity) || capacity < 1)
    throw new InsituError("invalid-argument", `capacity must be a whole number above 0, got ${valueText(capacity)}`);
  for (const trail of trails) {
    const rows = trail.past.fact?.shape?.[cacheAxis(trail)!];
    if (rows !== undefined && isKnown(rows) && rows > capacity)
      throw new InsituError(
        "invalid-argument",
        `capacity ${capacity} is smaller than the ${rows} rows of cache "${trail.past.name}" (${trail.writer.label})`,
      );
  }
}

/** The rows of caches whose shape is fixed; the most, where they differ. */
function fixedCapacity({ trails }: Analysis): number | undefined {
  const rows = trails
    .map((trail) => trail.past.fact?.shape?.[cacheAxis(trail)!])
    .filter((dim) => typeof dim === "number");
  return rows.length === 0 ? undefined : rows.reduce((largest, count) => Math.max(largest, count));
}

/** A name for the capacity that no other dimension has. */
function capacityName({ graph }: Model): string {
  const taken = new Set(graph.inputs.flatMap(({ type }) => (type?.kind === "tensor" ? (type.shape ?? []) : [])));
  let name = "capacity";
  while (taken.has(name)) name = `cache_${name}`;
  return name;
}

function dependence({ trails }: Analysis, { value, node }: Blame): InsituError {
  const what =
    node === undefined ? `input "${value.name}" is still needed` : `${node.label} makes "${value.name}", which`;
  const why =
    node === undefined
      ? ", and means nothing once caches have a fixed capacity"
      : " depends on how many rows the caches hold";
  return new InsituError("invalid-graph", `cache "${trails[0].past.name}" cannot be rewritten: ${what}${why}`);
}

/** The model without declarations of inner values that are no longer so. */
function withoutStale(model: Model, { whole }: Analysis, verified: ReturnType<typeof verify>): Model {
  const [before, now] = [valuesByName(whole), valuesByName(verified.graph)];
  const { graph } = model;
  const valueInfo = graph.valueInfo.filter(({ name }) => {
    const [then, value] = [before.get(name)?.fact?.shape, now.get(name)];
    const shape = value && verified.facts.get(value)?.shape;
    return then !== undefined && shape !== undefined && sameShape(then, shape);
  });
  return valueInfo.length === graph.valueInfo.length ? model : { ...model, graph: { ...graph, valueInfo } };
}

function differences(before: Model, after: Model): RewriteReport["inputs"] {
  const [old, now] = [before, after].map(({ graph }) => graph.inputs.map(({ name }) => name));
  const [had, has] = [new Set(old), new Set(now)];
  return { added: now.filter((name) => !had.has(name)), removed: old.filter((name) => !has.has(name)) };
}

/** The mask that was kept. */
const paddingOf = ({ masks: [mask], hidesOnly }: Analysis, keepMask: boolean): RewriteReport["padding"] =>
  keepMask && mask !== undefined ? { input: mask.name, hidesOnly } : undefined;

/** What made an output, where the model was made ready in another form. */
const formOf = (writer: ModelNode | undefined): string | undefined =>
  writer?.opType === "Concat" && writer.inputs.length === 3 ? "Slice and Concat" : undefined;

/** What a user of the model should know. */
function notesOf(model: Model, mayOnlyContinue: boolean): string[] {
  const taken = takeBranch(model, mayOnlyContinue);
  return taken === undefined
    ? []
    : [`taken as ${taken.value}, which chose the graph with caches, and no input any more: ${taken.input}`];
}

/** The model with a note of what was done, for whoever looks at it later. */
function withMetadata(model: Model, { caches, capacity, opset }: RewriteReport): Model {
  const text = `${caches.length} caches written by TensorScatter, capacity ${capacity}, from opset ${opset.from}`;
  return { ...model, metadata: new Map([...model.metadata, ["insitu.rewrite", text]]) };
}
