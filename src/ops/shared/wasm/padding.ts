/** Padding and biases of scores as one mask that is added: what onnxruntime's attentions share. */
import type { Operand } from "../../../graph/kernel.js";
import { rowMajorStrides } from "../../../tensor/view.js";
import type { Recorder } from "../../../wasm-kernels/wasm-kernel.js";
import { maskAt, type MaskPlace, noMask } from "./attention.js";
import { type ElementsPlace, runElements } from "./elements.js";
import { productOf } from "../rules/layout.js";
import type { FloatType } from "./work.js";

/** What is added to scores. */
interface Added {
  /**
   * int32. [batch] and more: keys that count, and from `2 · batch` entries on, where `hasStarts`, the first of them; [batch, total] or
   * [batch, queries, total]: what is not positive is hidden.
   */
  readonly padding: Operand | undefined;
  readonly hasStarts?: boolean;
  /** Numbers that are added as they are. */
  readonly added: Operand | undefined;
  readonly batch: number;
  readonly queries: number;
  readonly total: number;
  /** What is added where a key is hidden. */
  readonly filter: number;
}

/** The mask in memory of the program's own, made anew each time. */
export function recordMask(
  recorder: Recorder,
  { padding, hasStarts = false, added, batch, queries, total, filter }: Added,
): MaskPlace {
  const bias = added && maskAt(recorder.address(added), added.type as FloatType, added);
  if (padding === undefined) return bias ?? noMask;
  const rank = padding.shape.length;
  const [samples, heads] = [added?.shape[0] ?? 1, added?.shape[1] ?? 1];
  const rows = added !== undefined || rank === 3 ? queries : 1;
  const shape = [Math.max(samples, rank === 1 ? batch : padding.shape[0]), heads, rows, total];
  const strides = rowMajorStrides(shape);
  const count = productOf(shape);
  const seen = { address: recorder.temporary(count), type: "bool", strides } as const;
  const target = { address: recorder.temporary(4 * count), type: "float32", strides } as const;
  const word = (value: number): ElementsPlace => ({
    address: recorder.words([{ number: value }]),
    type: "float32",
    strides: [0, 0, 0, 0],
  });
  const compare = (a: ElementsPlace, b: ElementsPlace): void =>
    runElements(recorder, { operation: "less", kind: "integer", shape, output: seen, inputs: [a, b] });
  const choose = (yes: ElementsPlace, no: ElementsPlace): void =>
    runElements(recorder, { operation: "select", kind: "words", shape, output: target, inputs: [seen, yes, no] });
  const entries = (first: number, each: readonly number[]): ElementsPlace => ({
    address: recorder.address(padding) + 4 * first,
    type: "int32",
    strides: each,
  });
  if (rank === 1) {
    const numbers = recorder.words(Array.from({ length: total }, (_, key) => ({ word: key })));
    const keys: ElementsPlace = { address: numbers, type: "int32", strides: [0, 0, 0, 1] };
    const step = padding.strides[0];
    compare(keys, entries(0, [step, 0, 0, 0]));
    choose(word(0), word(filter));
    if (hasStarts) {
      compare(keys, entries(batch * step, [step, 0, 0, 0]));
      choose(word(filter), target);
    }
  } else {
    const [sample, ...rest] = padding.strides;
    const zero: ElementsPlace = { address: recorder.words([{ word: 0 }]), type: "int32", strides: [0, 0, 0, 0] };
    compare(zero, entries(0, [padding.shape[0] === 1 ? 0 : sample, 0, rank === 3 ? rest[0] : 0, rest.at(-1)!]));
    choose(word(0), word(filter));
  }
  if (added !== undefined && bias !== undefined) {
    const biases: ElementsPlace = {
      address: bias.mask,
      type: added.type as FloatType,
      strides: [bias.maskSample, bias.maskHead, bias.maskQuery, bias.maskKey],
    };
    runElements(recorder, { operation: "add", kind: "double", shape, output: target, inputs: [target, biases] });
  }
  return maskAt(target.address, "float32", { shape, strides });
}
