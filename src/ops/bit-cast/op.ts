/** BitCast: the same bits under another type of the same width. */
import { elementType, required } from "../../graph/attribute.js";
import { defineOp, tensor } from "../../graph/op.js";
import { contiguous, copyView } from "../../tensor/copy.js";
import { type ByteStorage, type ElementType, traitsOf } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import { anyType } from "../shared/rules/types.js";

const notString: readonly ElementType[] = anyType.filter((type) => type !== "string");

/** The bytes of a contiguous view of whole-byte elements. */
function bytesOf(view: View): Uint8Array {
  const data = view.data as ByteStorage;
  const width = traitsOf(view.type).bits / 8;
  return new Uint8Array(data.buffer, data.byteOffset + view.offset * width, view.size * width);
}

/** Reinterprets the bits of every element as the type `to`. */
export const BitCast = defineOp({
  name: "BitCast",
  since: 26,
  types: { T1: notString, T2: notString },
  inputs: { input: tensor("T1") },
  outputs: { output: tensor("T2") },
  attrs: { to: required(elementType()) },

  infer(call) {
    const { type, shape } = call.inputs.input;
    const { to } = call.attrs;
    const [from, into] = [traitsOf(type).bits, traitsOf(to).bits];
    call.check(to !== "string", "to must not be string: strings have no bits", "type-mismatch");
    call.check(from === into, () => `to must have the ${from} bits of ${type}, got ${to} of ${into}`, "type-mismatch");
    return { output: { type: to, shape } };
  },

  reference({ inputs: { input }, outputs: { output } }) {
    // Packed types all lie in bytes, and may start in the middle of one.
    if (traitsOf(input.type).bits < 8)
      return copyView(new View(output.type, input.shape, input.data, input.offset, input.strides), output);
    bytesOf(output).set(bytesOf(contiguous(input)));
  },
});
