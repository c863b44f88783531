/**
 * What memory a model will take, told before it is loaded: weights and caches by their sizes, values in between by the program of one token,
 * and what a process of Node has beside them. Reads a folder's small files, runs nothing.
 */
import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Backend, Forecast } from "#insitu/backends/backend.js";
import { readByRows } from "#insitu/backends/row-tables.js";
import { bytesText } from "#insitu/base/bytes-text.js";
import { InsituError } from "#insitu/base/error.js";
import { explanationOf, type SessionFacts } from "#insitu/explain/gather.js";
import { isKnownShape } from "#insitu/graph/dim.js";
import { leastTable } from "#insitu/onnx/arriving-weights.js";
import type { Plan } from "#insitu/plan/plan.js";
import { inputFacts } from "./inspect-sizes.js";

/** What a model takes while it makes one text, in bytes. */
export interface MemoryForecast {
  /** Tokens of the text: caches are counted for as many rows, and take memory as they are filled. */
  readonly context: number;
  readonly weightBytes: number;
  /** Weights of which single rows are read: those take memory, the others stay in their file. */
  readonly tableBytes: number;
  readonly cacheBytes: number;
  /** Values in between, for one token. */
  readonly arenaBytes: number;
  /** Node itself, the library with its kernels and threads, the tokenizer. */
  readonly processBytes: number;
  /** All of it together but tables; without weights, caches and values in between where those lie on a device. */
  readonly residentBytes: number;
}

/** Node with the library loaded and a model's graph prepared, garbage of the engine's young generation included; and each further thread. */
const [nodeBytes, threadBytes] = [80e6, 10e6];

/** A token of the vocabulary, or a merge of two, in the tables that a tokenizer makes of it. */
const entryBytes = 450;

/** The longest context that `generate` takes without being asked for. */
const mostContext = 4096;

type Json = Readonly<Record<string, unknown>>;

/** A JSON file beside the model, or above its folder `onnx`; nothing where there is none that can be read. */
async function besideModel(path: string, name: string): Promise<Json> {
  const folder = dirname(path);
  const root = basename(folder) === "onnx" ? dirname(folder) : folder;
  try {
    return JSON.parse(await readFile(join(root, name), "utf8")) as Json;
  } catch {
    return {};
  }
}

/** Tokens and merges of a tokenizer.json. */
function entriesOf({ model = {} }: Json): number {
  const { vocab = {}, merges = [] } = model as { readonly vocab?: object; readonly merges?: readonly unknown[] };
  return Object.keys(vocab).length + merges.length;
}

interface MemoryOptions {
  readonly backend: Backend;
  readonly isDevice: boolean;
  readonly context: number | undefined;
}

/** What a model with caches will take for a text of `context` tokens, by default as many as `generate` allows; undefined without caches. */
export async function forecastMemory(
  path: string,
  plan: Plan,
  facts: SessionFacts,
  options: MemoryOptions,
): Promise<MemoryForecast | undefined> {
  if (plan.pairs.length === 0) return undefined;
  const config = await besideModel(path, "config.json");
  return forecastMemoryOf(plan, facts, options, config, entriesOf(await besideModel(path, "tokenizer.json")));
}

/** The same for a model with this configuration, and so many tokens and merges in its tokenizer. */
export function forecastMemoryOf(
  plan: Plan,
  facts: SessionFacts,
  { backend, isDevice, context }: MemoryOptions,
  config: Json,
  entries: number,
): MemoryForecast | undefined {
  const made = config["max_position_embeddings"] ?? config["n_positions"];
  const tokens = context ?? Math.min(typeof made === "number" ? made : mostContext, mostContext);
  const sizes = cacheSizes(plan, tokens);
  const cacheBytes = explanationOf(plan, { ...facts, sizes }).bytes?.state.bytes;
  if (cacheBytes === undefined) return undefined;
  const arenaBytes = arenaOf(plan, sizes, tokens, backend);
  const processBytes = nodeBytes + threadBytes * availableParallelism() + entryBytes * entries;
  const { weightBytes } = facts;
  const tableBytes = restingBytes(plan);
  const computing = weightBytes - tableBytes + cacheBytes + arenaBytes;
  return {
    context: tokens,
    weightBytes,
    tableBytes,
    cacheBytes,
    arenaBytes,
    processBytes,
    residentBytes: processBytes + (isDevice ? 0 : computing),
  };
}

/** Bytes of tables that stay in their files. */
function restingBytes(plan: Plan): number {
  const sizes = [...readByRows(plan)].map(({ initializer }) => initializer!.byteLength);
  return sizes.filter((bytes) => bytes >= leastTable).reduce((sum, bytes) => sum + bytes, 0);
}

/** Sizes by the names that caches have for them: one sample, and rows for all tokens, whatever an exporter calls them. */
function cacheSizes({ pairs }: Plan, tokens: number): ReadonlyMap<string, number> {
  const sizes = new Map([
    ["batch", 1],
    ["capacity", tokens],
  ]);
  for (const { past } of pairs)
    for (const [axis, dim] of (past.fact?.shape ?? []).entries())
      if (typeof dim !== "number" && dim !== undefined && !sizes.has(String(dim)))
        sizes.set(String(dim), axis === 0 ? 1 : tokens);
  return sizes;
}

/** What the program of one token needs in between. */
function arenaOf(plan: Plan, sizes: ReadonlyMap<string, number>, tokens: number, backend: Backend): number {
  return forecastToken(plan, sizes, tokens, backend)?.program.arenaBytes ?? 0;
}

/** How the program of one token would run: dimensions that only the tokens of a run have are 1, all others the whole text's. Undefined where sizes are not known. */
export function forecastToken(
  plan: Plan,
  sizes: ReadonlyMap<string, number>,
  tokens: number,
  backend: Backend,
): Forecast | undefined {
  const step = plan.graph.inputs.find(({ name }) => name === "input_ids")?.fact?.shape?.at(-1);
  const facts = inputFacts(plan, sizes).map(({ type, shape }) => ({
    type,
    shape: shape?.map((dim) => (typeof dim === "number" ? dim : String(dim) === String(step) ? 1 : tokens)),
  }));
  if (!facts.every(({ shape }) => isKnownShape(shape))) return undefined;
  try {
    return backend.forecast?.(plan, facts);
  } catch (error) {
    // Other dimensions may not be a text's: then the least of all parts is left out.
    if (error instanceof InsituError) return undefined;
    throw error;
  }
}

/** The forecast as two lines. */
export function memoryForecastText(
  { context, weightBytes, tableBytes, cacheBytes, arenaBytes, processBytes, residentBytes }: MemoryForecast,
  isDevice: boolean,
): string {
  const [weights, caches, arena, process] = [weightBytes, cacheBytes, arenaBytes, processBytes].map(bytesText);
  const where = isDevice ? " on the device" : "";
  const resting =
    isDevice || tableBytes === 0
      ? ""
      : ` (of which ${bytesText(tableBytes)} stay in their file until their rows are used)`;
  return [
    `memory of generate for a text of ${context} tokens: about ${bytesText(residentBytes)} resident at its end (--context N for another length)`,
    `  weights ${weights}${resting}, caches ${caches}, values in between ${arena}${where}; the process and its tokenizer ${process}`,
  ].join("\n");
}
