/**
 * How many rows a run adds to the caches that it writes by index: the extent of what their writers bring. Told by the shapes of the inputs
 * where inference over symbols knows it, before any program is found; else by the program.
 */
import { bindDim, type Dim, isKnown, maxDim, symbolsOf } from "../graph/dim.js";
import type { Fact } from "../graph/fact.js";
import type { Graph, Value } from "../graph/graph.js";
import type { Pair } from "../plan/pairs.js";
import type { Program } from "../plan/program.js";
import { effectOf } from "../plan/uses.js";
import type { Placed } from "../tensor/placed.js";

/** The rows that runs of one plan add. */
export class AddedRows {
  readonly #pairs: readonly Pair[];
  /** Over the symbols of the inputs; undefined where inference does not know. */
  readonly #rows: Dim | undefined;
  /** Where inputs tell the symbols that count. */
  readonly #sizes: readonly { readonly symbol: string; readonly value: Value; readonly axis: number }[];

  /** The input whose size along an axis is how many rows a run adds, where one is. */
  readonly tokens: { readonly value: Value; readonly axis: number } | undefined;

  constructor(graph: Graph, pairs: readonly Pair[]) {
    this.#pairs = pairs.filter(({ kind, axis }) => kind === "update" && axis !== undefined);
    const [first] = this.#pairs;
    this.#rows = first && rowsOf(first, (value) => value.fact);
    const symbols = this.#rows === undefined ? new Set() : symbolsOf(this.#rows);
    this.#sizes = graph.inputs.flatMap((value) =>
      (value.fact?.shape ?? []).flatMap((dim, axis) => {
        const symbol = String(dim);
        return symbols.has(symbol) ? [{ symbol, value, axis }] : [];
      }),
    );
    this.tokens = this.#sizes.find(({ symbol }) => symbol === String(this.#rows));
  }

  /** What the shapes of these inputs tell; undefined where they do not. */
  ofInputs(inputs: ReadonlyMap<Value, Placed>): number | undefined {
    if (this.#rows === undefined) return undefined;
    const sizes = new Map<string, Dim>();
    for (const { symbol, value, axis } of this.#sizes) {
      const size = inputs.get(value)?.shape[axis];
      if (size !== undefined) sizes.set(symbol, size);
    }
    const rows = bindDim(this.#rows, sizes);
    return isKnown(rows) ? rows : undefined;
  }

  /** What a program tells; undefined where only data do. */
  ofProgram({ facts }: Program): number | undefined {
    for (const pair of this.#pairs) {
      const rows = rowsOf(pair, (value) => facts.get(value));
      if (rows !== undefined && isKnown(rows)) return rows;
    }
    return undefined;
  }
}

/** The most rows that a writer brings to a pair's cache. */
export function rowsOf({ writers, axis }: Pair, factOf: (value: Value) => Fact | undefined): Dim | undefined {
  let rows: Dim | undefined;
  for (const node of writers) {
    const written = node.outputs.findIndex((_, position) => effectOf(node, position)?.kind === "update");
    const effect = effectOf(node, written);
    const past = effect?.sources[0];
    const rank = factOf(past!)?.shape?.length;
    const shaped = node.inputs.find(
      (value) => value !== undefined && value !== past && factOf(value)?.shape?.length === rank,
    );
    const brought = effect?.brings ?? (shaped && { value: shaped, axis: undefined });
    const extent = brought && factOf(brought.value)?.shape?.[brought.axis ?? axis!];
    if (extent === undefined) return undefined;
    rows = rows === undefined ? extent : maxDim(rows, extent);
  }
  return rows ?? 0;
}
