/**
 * RepackCache: moves rows within a cache, so that those which survive an eviction lie together. Every new row is what its source
 * was before the call, in whatever order rows are named. Moves rows without looking at them.
 */
import { int } from "../../graph/attribute.js";
import { update } from "../../graph/effect.js";
import { factOfView } from "../../graph/fact.js";
import { defineOp, optional, tensor } from "../../graph/op.js";
import { cloneView, copyView } from "../../tensor/copy.js";
import { View } from "../../tensor/view.js";
import { modeOf } from "../shared/paged/layouts.js";
import { copyUnlessShared } from "../shared/loops/share.js";
import { anyType, indexTypes } from "../shared/rules/types.js";
import { blockAxis, checkShapes, type Moves, piecesOf, readMoves } from "./moves.js";

/** Row i of each sample becomes what row `rows[i]` was; −1 leaves it. Through `block_tables` for pages, else along `axis`. */
export const RepackCache = defineOp({
  name: "RepackCache",
  domain: "insitu",
  since: 1,
  types: { T: anyType.filter((type) => type !== "int2" && type !== "uint2"), R: indexTypes, I: indexTypes },
  inputs: { cache: tensor("T"), rows: tensor("R"), block_tables: optional(tensor("I")) },
  outputs: { cache: tensor("T") },
  attrs: { axis: int(-2), cache_mode: modeOf(["Norm", "PA_NZ", "NHSD"], "Norm") },
  effects: { cache: update("cache") },

  infer(call) {
    checkShapes(call);
    return { cache: { shape: call.inputs.cache.shape } };
  },

  looksAt: ["rows", "block_tables"],
  validate(call) {
    checkShapes(call);
    readMoves(call);
  },

  reference(call) {
    const { inputs, attrs } = call;
    const facts = {
      cache: factOfView(inputs.cache),
      rows: factOfView(inputs.rows),
      block_tables: inputs.block_tables && factOfView(inputs.block_tables),
    };
    const moves = readMoves({ ...call, inputs: facts })!;
    const { cache } = call.outputs;
    copyUnlessShared(inputs.cache, cache);
    const heads = inputs.rows.rank === 3 ? inputs.rows.shape[1] : 1;
    const paged = inputs.block_tables !== undefined;
    const lines = (move: Moves): View =>
      paged ? pageLines(cache, move, attrs.cache_mode, heads) : linearLines(cache, move, attrs.axis);
    // Sources of all moves are read before the first target is written.
    const read = moves.map((move) => move.sources.map((source) => cloneView(rowOf(lines(move), source))));
    moves.forEach((move, at) =>
      move.targets.forEach((target, row) => copyView(read[at][row], rowOf(lines(move), target))),
    );
  },
});

/** Row `slot` of lines: [rows, …], or [blocks, block_size, …] for pages. */
function rowOf(lines: View, slot: number): View {
  if (lines.shape[0] === 1) return lines.slice(1, slot, slot + 1);
  const block = Math.floor(slot / lines.shape[1]);
  const within = slot - block * lines.shape[1];
  return lines.slice(0, block, block + 1).slice(1, within, within + 1);
}

/** A linear cache's rows of one sample, and of one head of it, as [1, rows, …]. */
function linearLines(cache: View, { sample, head }: Moves, axis: number): View {
  const along = axis < 0 ? axis + cache.rank : axis;
  let view = cache.slice(0, sample, sample + 1);
  if (head !== undefined) view = view.slice(1, head, head + 1);
  const rest = cache.shape.map((_, at) => at).filter((at) => at !== 0 && at !== along);
  return view.transpose([0, along, ...rest]);
}

/** A paged cache's slots, of one head where heads differ, as [blocks, block_size, …]. */
function pageLines(cache: View, { head }: Moves, mode: "Norm" | "PA_NZ" | "NHSD", heads: number): View {
  let view = cache;
  if (mode === "PA_NZ") {
    const pieces = cache.shape.slice(1, -2).reduce((product, dim) => product * dim, 1);
    const [step] = cache.strides.slice(-3);
    view = new View(cache.type, [cache.shape[0], pieces, ...cache.shape.slice(-2)], cache.data, cache.offset, [
      cache.strides[0],
      step,
      ...cache.strides.slice(-2),
    ]);
  }
  if (head !== undefined) {
    const count = mode === "PA_NZ" ? piecesOf(cache.shape, heads) : 1;
    const axis = mode === "Norm" ? 2 : 1;
    view = view.slice(axis, head * count, (head + 1) * count);
  }
  const slots = blockAxis(mode, view.rank);
  return view.transpose([0, slots, ...view.shape.map((_, at) => at).filter((at) => at !== 0 && at !== slots)]);
}
