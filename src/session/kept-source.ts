/**
 * What a run is fed, for the forms of a model whose presents stay inside: which form is the same for it, where its pasts are, and what that
 * form is fed in its place. Runs nothing.
 */
import type { Value } from "../graph/graph.js";
import { writeIntegers } from "../tensor/access.js";
import { copyView } from "../tensor/copy.js";
import { type Placed, sameNumbers } from "../tensor/placed.js";
import { Tensor } from "../tensor/tensor.js";
import { View } from "../tensor/view.js";
import { type AddedTokens, follow, hidesOldRows, saysTheSame } from "./exact-feeds.js";
import type { Feeds } from "./feeds.js";
import type { KeptState } from "./handles.js";
import type { KeptModel } from "./kept-model.js";

/** Where a run's pasts are. */
export interface Source {
  /** The form of the model that is the same for what is fed. */
  readonly form: KeptModel;
  /** The conversation that it goes on with; undefined where it begins one. */
  readonly conversation: KeptState<KeptModel> | undefined;
  /** The rows of each cache. */
  readonly places: () => readonly Placed[];
  readonly added: AddedTokens;
  /** Which rows are padding, where some may be. */
  readonly mask: View | undefined;
  /** True if positions are passed on as they are fed. */
  readonly passesPositions: boolean;
}

/** The form that is the same for what is fed beside pasts: the one that was taken so far, if it is. */
export function formFor(
  full: KeptModel,
  taken: KeptModel,
  at: (name: string) => Placed,
  added: AddedTokens,
): Pick<Source, "form" | "mask" | "passesPositions"> | undefined {
  // Positions of another shape are counted anew.
  const arePassed = ({ positions }: KeptModel): boolean => {
    if (positions === undefined || !positions.mayJump) return false;
    const place = at(positions.value.name);
    return place.type === positions.value.fact!.type && sameNumbers(place.shape, [added.batch, added.tokens]);
  };
  const maskFor = (form: KeptModel): View | boolean => {
    const { mask, replaced, positions } = form;
    if (!replaced.every((input) => saysTheSame(input, at(input.name), added))) return false;
    if (positions?.isFed === true && !arePassed(form) && !follow(at(positions.value.name), added)) return false;
    if (mask === undefined) return true;
    const place = at(mask.name);
    return hidesOldRows(place, added) && place;
  };
  const asFull = { form: full, mask: undefined, passesPositions: arePassed(full) };
  if (taken === full && maskFor(full) === true) return asFull;
  // Made where there are rows that a mask may hide.
  const padded = added.past === 0 ? undefined : full.padded();
  const mask = padded !== undefined && maskFor(padded);
  if (padded !== undefined && mask instanceof View) return { form: padded, mask, passesPositions: arePassed(padded) };
  return taken !== full && maskFor(full) === true ? asFull : undefined;
}

/** What the rewritten form is fed: its lengths come from the state. */
export function innerFeeds(feeds: Feeds, { form, added, mask, passesPositions }: Source, capacity: number): Feeds {
  const { passed, positions } = form;
  const own: Record<string, Feeds[string]> = {};
  for (const name of passed) if (feeds[name] !== undefined) own[name] = feeds[name];
  if (positions !== undefined) {
    const { value } = positions;
    own[value.name] = passesPositions ? feeds[value.name] : positionsOf(value, added);
  }
  if (mask !== undefined) own[form.mask!.name] = widened(mask, capacity);
  return own;
}

/** Positions that count rows, [batch, tokens]. */
function positionsOf({ fact }: Value, { batch, past, tokens }: AddedTokens): Tensor {
  const view = View.allocate(fact!.type, [batch, tokens]);
  writeIntegers(
    view,
    Array.from({ length: batch * tokens }, (_, at) => past + (at % tokens)),
  );
  return Tensor.fromView(view);
}

/** A mask with a column for each row of the caches. */
function widened(mask: View, capacity: number): Tensor {
  const [batch, columns] = mask.shape;
  const view = View.allocate(mask.type, [batch, capacity]);
  copyView(mask, view.slice(1, 0, columns));
  return Tensor.fromView(view);
}
