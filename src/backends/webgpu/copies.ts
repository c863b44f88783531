/** Copies between places on the device, of any strides, by one shader for each size of element; and those between host and device. */
import type { Operand } from "../../graph/kernel.js";
import { traitsOf } from "../../tensor/element-type.js";
import type { Placed } from "../../tensor/placed.js";
import { invocationsOf, variable } from "../../webgpu-kernels/shader-part.js";
import { listed } from "../../webgpu-kernels/wgsl.js";
import type { Dispatch } from "../../webgpu-kernels/webgpu-kernel.js";

/** What a copy is made between: operands, or places alike. */
type End = Pick<Operand, "type" | "shape" | "strides" | "place">;

/**
 * Dispatches that copy elements from one place to another of the same type and shape; a reason where none does. Elements smaller than a word
 * are written by whole words: what lies beside them in a word must be theirs too, or come from the target.
 */
export function copyDispatch(from: End, to: End, mostWorkgroups: number): Dispatch | string {
  const { bits } = traitsOf(from.type);
  if (bits < 8 || bits % 8 !== 0 || bits > 64) return `elements of ${from.type} are not of 1, 2, 4 or 8 bytes`;
  const rank = Math.max(1, to.shape.length);
  const shape = to.shape.length === 0 ? [1] : to.shape;
  const source = variable("source", asOperand(from));
  const [sourceStrides, targetStrides] = [from, to].map(({ strides }) => (strides.length === 0 ? [1] : strides));
  const count = shape.reduce((product, dim) => product * dim, 1);
  const parameters = {
    count,
    ...listed("shape", shape),
    ...listed("from", sourceStrides),
    ...listed("to", targetStrides),
    fromOffset: from.place.offset,
    toOffset: to.place.offset,
  };
  const places = (element: string): string => {
    const lines = [`var rest = ${element}; var f = p.fromOffset; var t = p.toOffset;`];
    for (let axis = rank - 1; axis >= 0; axis--)
      lines.push(
        `let c${axis} = rest % p.shape${axis}; rest /= p.shape${axis}; f += c${axis} * p.from${axis}; t += c${axis} * p.to${axis};`,
      );
    return lines.join("\n");
  };
  const perWord = 32 / bits;
  const body =
    perWord <= 1
      ? `if (index >= p.count) { return; }\n${places("index")}
         ${perWord === 1 ? `target_[t] = ${source.at("f")};` : `target_[2u * t] = ${source.at("2u * f")}; target_[2u * t + 1u] = ${source.at("2u * f + 1u")};`}`
      : // Atomics let neighbours share a word: the bits are cleared and set, each by its own element alone.
        `if (index >= p.count) { return; }\n${places("index")}
         let value = extractBits(${source.at(`f / ${perWord}u`)}, ${bits}u * (f % ${perWord}u), ${bits}u);
         let shift = ${bits}u * (t % ${perWord}u);
         atomicAnd(&target_[t / ${perWord}u], ~(${bits === 8 ? "0xffu" : "0xffffu"} << shift));
         atomicOr(&target_[t / ${perWord}u], value << shift);`;
  const written = { writes: true, ...(perWord > 1 ? { element: "atomic<u32>" } : {}) };
  return invocationsOf(
    { mostWorkgroups },
    { name: "copyElements", parts: [source, variable("target_", asOperand(to), written)], parameters, count, body },
  );
}

const asOperand = (end: End): Operand => end as Operand;

/** A place as an end of a copy. */
export const endOf = (place: Placed): End => ({ type: place.type, shape: place.shape, strides: place.strides, place });
