/**
 * Whether what a decoder is fed says just what its rewritten form takes for granted: every row valid, rows and positions one after another.
 * Looks at feeds of the host; anything else is no.
 */
import type { ReplacedInput, ReplacedMeaning } from "#insitu/rewrite/replaced.js";
import { readNumbers } from "../tensor/access.js";
import type { Placed } from "../tensor/placed.js";
import { sameNumbers } from "../tensor/placed.js";
import { View } from "../tensor/view.js";

/** What a run adds to caches. */
export interface AddedTokens {
  readonly batch: number;
  /** Rows that are there before the run. */
  readonly past: number;
  /** Rows that it adds. */
  readonly tokens: number;
}

/** True if an input that the rewritten model has no more says what it stands for. */
export function saysTheSame({ means, always = false }: ReplacedInput, place: Placed, added: AddedTokens): boolean {
  if (means === "unread") return true;
  return place instanceof View && means !== undefined && says(means, place, added, always);
}

function says(
  means: Exclude<ReplacedMeaning, "unread" | undefined>,
  view: View,
  { batch, past, tokens }: AddedTokens,
  always: boolean,
): boolean {
  switch (means) {
    case "valid":
      return sameNumbers(view.shape, [batch, past + tokens]) && isAllOnes(view);
    case "rows":
      return view.size <= tokens && wholeNumbers(view).every((row, at) => row === past + at);
    case "last":
      return view.size === batch && wholeNumbers(view).every((row) => row === past + tokens - 1);
    case "total":
      return view.size === 1 && wholeNumbers(view)[0] === past + tokens;
    default:
      // Without caches both branches are the same, but where one makes what the other reads.
      return (past === 0 && !always) || (view.size === 1 && Boolean(readNumbers(view)[0]) === means);
  }
}

/** True if a mask hides rows that are there already, and none of the new ones: a query that sees nothing is answered otherwise. */
export function hidesOldRows(place: Placed, { batch, past, tokens }: AddedTokens): place is View {
  if (!(place instanceof View) || past === 0 || !sameNumbers(place.shape, [batch, past + tokens])) return false;
  return wholeNumbers(place).every((entry, at) => entry === 1 || (entry === 0 && at % (past + tokens) < past));
}

/** True if positions count on from the rows that are there, for every sample. */
export function follow(place: Placed, { past, tokens }: AddedTokens): boolean {
  if (!(place instanceof View) || place.rank === 0 || place.shape.at(-1) !== tokens) return false;
  return wholeNumbers(place).every((position, at) => position === past + (at % tokens));
}

const wholeNumbers = (view: View): readonly number[] => Array.from(readNumbers(view));

/** True if every entry is 1: asked for each token of masks as long as the text. */
function isAllOnes(view: View): boolean {
  const { data } = view;
  if (view.contiguous && data instanceof BigInt64Array) {
    const words = new Int32Array(data.buffer, data.byteOffset + 8 * view.offset, 2 * view.size);
    for (let at = 0; at < words.length; at += 2) if (words[at] !== 1 || words[at + 1] !== 0) return false;
    return true;
  }
  return wholeNumbers(view).every((entry) => entry === 1);
}
