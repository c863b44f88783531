/** Slice on WASM, where the bounds are known beforehand. */
import type { Operand, WasmKernel } from "../../kernels/wasm-kernel.js";
import { isWide, readBigInts, readNumbers } from "../../tensor/access.js";
import { whole } from "../wasm-move.js";
import { mover } from "../wasm-mover.js";
import { rangeOf, sliceView } from "./range.js";

/** A list as numbers; what lies past 2^53 is clamped to a dimension anyway. */
const numbersOf = ({ view }: Operand): readonly number[] =>
  isWide(view.type) ? Array.from(readBigInts(view), Number) : Array.from(readNumbers(view));

/** Every `steps`-th element between `starts` and `ends`: attributes before opset 10, operands since. */
export const slice: WasmKernel = mover("Slice", ({ inputs: [data, ...bounds], outputs: [output], attrs, opset }) => {
  if (bounds.some((bound) => bound?.known === false)) return "the bounds are data";
  const [starts, ends, axes, steps] =
    opset < 10
      ? [
          (attrs["starts"] as readonly bigint[]).map(Number),
          (attrs["ends"] as readonly bigint[]).map(Number),
          attrs["axes"] as readonly number[] | undefined,
        ]
      : bounds.map((bound) => bound && numbersOf(bound));
  const { shape } = data!;
  const ranges = starts!.map((start, at) => {
    const given = axes?.[at] ?? at;
    const axis = given < 0 ? given + shape.length : given;
    return rangeOf(axis, shape[axis], start, ends![at], steps?.[at] ?? 1);
  });
  return [{ from: { operand: data!, view: sliceView(data!.view, ranges) }, to: whole(output!) }];
});
