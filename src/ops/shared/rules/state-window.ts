/**
 * onnxruntime's `state_window`: a state that also holds what it was after each of the last tokens, along an axis of its own in front. The last
 * slot is the state; those that no token of the call reached are zeros.
 */
import type { Dim, Shape } from "../../../graph/dim.js";
import type { Fact } from "../../../graph/fact.js";
import type { CallContext } from "../../../graph/op.js";
import { View } from "../../../tensor/view.js";
import { fillView, zeroOf } from "../loops/fill.js";
import { checkRank, unifyDims } from "./shapes.js";

/** Slots that a window may have. */
const mostSlots = 8;

/** Fails unless the window is one, and the past has its axis. `rank` is that of a state without a window. */
export function checkWindow(call: CallContext, past: Fact | undefined, window: number | undefined, rank: number): void {
  const slots = window ?? 0;
  call.check(
    slots >= 0 && slots <= mostSlots,
    () => `state_window must lie in [0, ${mostSlots}], got ${slots}`,
    "invalid-argument",
  );
  checkRank(call, "past_state", past, slots > 0 ? rank + 1 : rank);
  if (slots > 0 && past?.shape !== undefined)
    unifyDims(call, past.shape[0], slots, "the first dimension of past_state must be state_window");
}

/** The shape of a state with its window. */
export const stateShape = (window: number | undefined, shape: readonly Dim[]): Shape =>
  window === undefined || window === 0 ? shape : [window, ...shape];

/** Slot `slot` of a state with a window; the state itself where it has none. */
export function slotOf(state: View, window: number | undefined, slot: number): View {
  if (window === undefined || window === 0) return state;
  const [, ...shape] = state.shape;
  const [step, ...strides] = state.strides;
  return new View(state.type, shape, state.data, state.offset + slot * step, strides);
}

/** Zeroes the slots that `tokens` do not reach; the last one, which is the state, stays. */
export function clearSlots(state: View, window: number | undefined, tokens: number): void {
  const unreached = Math.min((window ?? 0) - 1, (window ?? 0) - tokens);
  for (let slot = 0; slot < unreached; slot++) fillView(slotOf(state, window, slot), zeroOf(state.type));
}
