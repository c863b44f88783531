/**
 * A decoder whose caches have a capacity, run as one whose caches grow, which is what other people's programs know: where a run without a state
 * leaves lengths out, every row of its pasts is valid, and its presents have the new rows more. Runs nothing.
 */
import { InsituError } from "../base/error.js";
import { isKnown, symbolsOf } from "../graph/dim.js";
import type { Value } from "../graph/graph.js";
import type { Plan } from "../plan/plan.js";
import { effectOf } from "../plan/uses.js";
import { readNumbers, writeIntegers } from "../tensor/access.js";
import { copyView } from "../tensor/copy.js";
import { Tensor } from "../tensor/tensor.js";
import { type TensorLike, tensorOf } from "../tensor/tensor-like.js";
import { View } from "../tensor/view.js";
import type { Feeds } from "./feeds.js";
import type { KeptCache } from "./handles.js";
import type { Pairing } from "./pairing.js";

/** A decoder whose lengths follow from what it is fed. */
export interface CountedDecoder {
  readonly caches: readonly KeptCache[];
  /** The inputs that say where rows start, or how many are valid then. */
  readonly lengths: ReadonlySet<Value>;
  /** Those of them that say where rows start. */
  readonly starts: ReadonlySet<Value>;
  /** The input whose size says how many tokens are new. */
  readonly tokens: { readonly name: string; readonly axis: number };
  /** The input with the positions of tokens, where there is one. */
  readonly positions: Value | undefined;
}

const positionsName = "position_ids";

/** What a pairing's decoder is as such a one; undefined where rows that nobody says to be valid may be read, or where sizes do not tell lengths. */
export function countedDecoderOf({ stateful: { plan }, lengthInputs, standing }: Pairing): CountedDecoder | undefined {
  const { start, end, told } = lengthInputs;
  const { filled } = standing.writtenRows;
  const { tokens } = standing.addedRows;
  if (start.size === 0 || end.size === 0 || plan.pairs.length === 0 || tokens === undefined) return undefined;
  const { uses } = plan;
  const bounded = new Set([...end].flatMap((value) => told.get(value)!));
  const caches: KeptCache[] = [];
  for (const { past, present, writers } of plan.pairs) {
    const fills = filled.get(past.name);
    if (fills === undefined || fills.wraps || isKnown(past.fact!.shape![fills.axis])) return undefined;
    const states = [
      past,
      ...writers.flatMap((node) => node.outputs.filter((_, at) => effectOf(node, at)?.kind === "update")),
    ];
    const readers = states.flatMap((value) =>
      value === undefined ? [] : uses.sameBytes(value).flatMap((same) => uses.readers.get(same) ?? []),
    );
    if (!readers.every((node) => bounded.has(node) || writers.includes(node))) return undefined;
    caches.push({ input: past.name, output: present.name, axis: fills.axis });
  }
  if (tellsCapacity(plan)) return undefined;
  const positions = plan.graph.inputs.find(({ name }) => name === positionsName);
  return {
    caches,
    lengths: new Set([...start, ...end]),
    starts: start,
    tokens: { name: tokens.value.name, axis: tokens.axis },
    positions: positions?.fact?.shape?.length === 2 ? positions : undefined,
  };
}

/** True if something beside caches may be as long as they are: a mask, attention's scores. */
function tellsCapacity({ graph, pairs }: Plan): boolean {
  const caches = new Set(pairs.flatMap(({ past, present }) => [past, present]));
  const rows = new Set(pairs.flatMap(({ past, axis }) => [...symbolsOf(past.fact!.shape![axis!])]));
  return [...graph.inputs, ...graph.outputs].some(
    (value) =>
      !caches.has(value) &&
      value.fact?.shape?.every((dim) => [...symbolsOf(dim)].every((symbol) => !rows.has(symbol))) !== true,
  );
}

/** True for feeds of such a run: none of the lengths, and tokens. */
export const leavesLengthsOut = ({ lengths, tokens }: CountedDecoder, feeds: Feeds): boolean =>
  typeof feeds === "object" &&
  feeds !== null &&
  feeds[tokens.name] !== undefined &&
  [...lengths].every(({ name }) => feeds[name] === undefined);

/**
 * The feeds of such a run, where pasts without rows may be of any batch: who begins a text does not always know one. Throws for positions
 * that tell of padding: rows of padding would be read like others.
 */
export function growingFeeds({ caches, tokens, positions }: CountedDecoder, feeds: Feeds): Feeds {
  const own: Record<string, TensorLike> = { ...feeds };
  const take = (name: string): Tensor | undefined => {
    const tensor = tensorOf(feeds[name], `input "${name}"`);
    if (tensor !== undefined) own[name] = tensor;
    return tensor;
  };
  const batch = take(tokens.name)?.dims[0];
  const told = positions && take(positions.name);
  if (told?.location === "cpu" && told.dims.length === 2) checkPositions(positions!.name, told.toView());
  for (const { input, axis } of caches) {
    const past = take(input);
    if (past?.dims[axis] === 0 && batch !== undefined && past.dims[0] !== batch)
      own[input] = Tensor.fromView(View.allocate(past.type, past.dims.with(0, batch)));
  }
  return own;
}

/** Positions of padding stand still, and those behind it are others in each sample. */
function checkPositions(name: string, view: View): void {
  const [batch, count] = view.shape;
  const positions = readNumbers(view);
  for (let at = 0; at < batch * count; at++)
    if (positions[at] !== positions[0] + (at % count))
      throw new InsituError(
        "invalid-feed",
        `input "${name}" must increase by one, alike in every sample, if lengths are not given, got ${positions[at]} at [${Math.floor(at / count)},${at % count}]: run padded prompts one at a time, or with a state, which has a length for each`,
      );
}

/** What the model itself is fed for such feeds: pasts with room for the new rows, and lengths. */
export function feedsWithLengths({ caches, lengths, starts, tokens }: CountedDecoder, feeds: Feeds): Feeds {
  const own: Record<string, TensorLike> = { ...feeds };
  const added = tensorOf(feeds[tokens.name], `input "${tokens.name}"`)?.dims[tokens.axis] ?? 0;
  let [batch, rows] = [0, 0];
  for (const { input, axis } of caches) {
    const past = tensorOf(feeds[input], `input "${input}"`);
    // Whoever reads the feeds says what is wrong with it.
    if (past === undefined || past.dims.length <= axis) continue;
    const view = View.allocate(past.type, past.dims.with(axis, past.dims[axis] + added));
    copyView(past.toView(), view.slice(axis, 0, past.dims[axis]));
    own[input] = Tensor.fromView(view);
    [batch, rows] = [past.dims[0], past.dims[axis]];
  }
  for (const value of lengths) {
    const { type, shape } = value.fact!;
    const view = View.allocate(type, shape?.length === 0 ? [] : [batch]);
    writeIntegers(view, new Array<number>(view.size).fill(starts.has(value) ? rows : rows + added));
    own[value.name] = Tensor.fromView(view);
  }
  return own;
}
