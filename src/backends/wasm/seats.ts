/**
 * In which memory a step runs, and how operands that lie in another one come to it. What is written or shown where it lies decides first,
 * then large weights and caches, then what was computed before. Constants are not carried: the engine keeps a copy where one is needed.
 */
import type { Value } from "../../graph/graph.js";
import { heavyBytes } from "./cache-groups.js";
import type { Step } from "../../plan/program.js";
import { arrayConstructorOf, type ByteStorage } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import type { WasmArena } from "./arena.js";
import type { WasmMemories } from "./memories.js";

/** What a step is judged by. */
interface SeatCall {
  readonly step: Step;
  readonly inputs: readonly (View | undefined)[];
  /** What is written without being read. */
  readonly elsewhere: readonly View[];
  readonly arena: WasmArena;
  /** True for weights and what shapes decide. */
  readonly isConstant: (value: Value | undefined) => boolean;
  /** True for a constant that several steps read: it draws none of them, unless it is too large to have in each memory. */
  readonly isCommon: (value: Value | undefined) => boolean;
  /** The memory that the step before ran in. */
  readonly last: number;
}

/** Bytes of a constant that several steps read, above which it is not copied into each memory. */
const mostCommonBytes = 2 ** 26;

/** The number of the memory that a step runs in. */
export function chooseSeat(
  { step, inputs, elsewhere, arena, isConstant, isCommon, last }: SeatCall,
  memories: WasmMemories,
): number {
  for (const view of elsewhere) {
    const memory = memories.of(view);
    if (memory !== undefined) return memories.numberOf(memory);
  }
  for (const placement of step.placements) {
    if (placement?.kind !== "shared" || placement.effect === "reuse") continue;
    const source = inputs[step.node.inputs.indexOf(placement.with)];
    const memory = source && memories.of(source);
    if (memory !== undefined) return memories.numberOf(memory);
  }
  let best = last;
  let most = 0;
  inputs.forEach((view, at) => {
    const memory = view && memories.of(view);
    if (view === undefined || memory === undefined) return;
    const value = step.node.inputs[at];
    const constant = isConstant(value);
    const number = memories.numberOf(memory);
    const heavy =
      view.byteLength >= heavyBytes &&
      (constant ? !isCommon(value) || view.byteLength > mostCommonBytes : arena.offsetOf(view, number) === undefined);
    // Small constants are cheaper to copy once than results to carry each time. Among equals, work goes on where it is.
    const weight = heavy ? 2 ** 40 + view.byteLength : constant ? 0 : view.byteLength + (number === last ? 0.5 : 0);
    if (weight > most) [best, most] = [number, weight];
  });
  return best;
}

/** A copy to make before a step runs. */
export interface Carriage {
  readonly operand: View;
  readonly from: Uint8Array;
  readonly to: Uint8Array;
}

/** The operand as a view of other bytes, and the copy that fills them. */
export function carriageOf(view: View, buffer: ArrayBufferLike, address: number): Carriage & { readonly view: View } {
  const data = view.data as ByteStorage;
  const { type, shape, offset, strides } = view;
  const storage = new (arrayConstructorOf(type as Exclude<View["type"], "string">))(buffer, address, data.length);
  return {
    operand: view,
    view: new View(type, shape, storage, offset, strides),
    from: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    to: new Uint8Array(buffer, address, data.byteLength),
  };
}
