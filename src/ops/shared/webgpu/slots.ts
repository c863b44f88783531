/** The slots of pages that tokens are written to, as shaders read them: of several tokens for one slot the last stays, the others are not written. */
import type { Operand } from "../../../graph/kernel.js";
import type { ElementType } from "../../../tensor/element-type.js";
import { invocationsOf, type ShaderPart, type Variable, variable } from "../../../webgpu-kernels/shader-part.js";
import type { Binding, Dispatch, WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { ownTable, type Table } from "./tables.js";

/** Slots, one for each token of all samples, with `slotOffset` and `tokens`; negative: the token is not written. */
export interface Slots {
  /** The array, as the shader calls it. */
  readonly array: string;
  readonly of: Binding["of"];
  readonly type: ElementType;
  readonly offset: number;
  /** True if one may be that of several tokens. */
  readonly areMixed: boolean;
}

/** Tokens up to which each slot is compared with those of all later ones wherever it is read; beyond, once, in another dispatch. */
const mostCompared = 64;

const slotsOf = ({ array, of, type }: Slots): Variable => variable(array, of, { type });

const slotAt = (slots: Slots, at: string): string => slotsOf(slots).loadIndex(`p.slotOffset + ${at}`);

const comparing = (slots: Slots): string => `
fn isLast(token: u32, slot: i32) -> bool {
  for (var later = token + 1u; later < p.tokens; later++) { if (${slotAt(slots, "later")} == slot) { return false; } }
  return true;
}`;

/** `slotOf(token)`: where a token is written to; −1 where it is not. */
export const slotsPart = (slots: Slots): ShaderPart => ({
  uses: [slotsOf(slots)],
  parameters: { slotOffset: slots.offset },
  code: slots.areMixed
    ? `${comparing(slots)}
fn slotOf(token: u32) -> i32 {
  let slot = ${slotAt(slots, "token")};
  return select(-1, slot, slot >= 0 && isLast(token, slot));
}`
    : `fn slotOf(token: u32) -> i32 { return ${slotAt(slots, "token")}; }`,
});

/** The slots of an operand; of many tokens, those that are written, found once a run for all layers where the host knows the slots. */
export function slotsOfTokens(
  slots: Operand,
  tokens: number,
  recorder: WebgpuRecorder,
  table: Table = ownTable("slots", slots),
): Slots {
  const slotsIn = ({ array, of, offset }: Table): Slots => ({ array, of, type: slots.type, offset, areMixed: true });
  if (tokens <= mostCompared) return slotsIn(table);
  const given = slotsIn(ownTable("slots", slots));
  const make = (of: Binding["of"]): Dispatch =>
    invocationsOf(recorder.device, {
      name: "lastTokens",
      parts: [slotsPart(given), variable("lasts", of, { element: "i32", writes: true })],
      parameters: { tokens },
      count: tokens,
      body: "  if (index < p.tokens) { lasts[index] = slotOf(index); }",
    });
  const found = { array: "slots", type: "int32", offset: 0, areMixed: false } as const;
  if (recorder.isOnHost(slots)) return { ...found, of: recorder.form([slots], "last tokens", 4 * tokens, make) };
  const of = recorder.temporary(4 * tokens);
  recorder.dispatch(make(of));
  return { ...found, of };
}
