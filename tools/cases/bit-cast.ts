import { of, type OpCase } from "./shared/case.js";
import { traitsOf } from "#insitu/tensor/element-type.js";

export const cases: readonly OpCase[] = [
  {
    op: "BitCast",
    opset: 26,
    shows: "a float's bits as an integer",
    attrs: { to: traitsOf("int32").code },
    inputs: [of("float32", [2], [1, -0])],
    outputs: [of("int32", [2], [0x3f800000, -(2 ** 31)])],
  },
  {
    op: "BitCast",
    opset: 26,
    shows: "a complex number as 64 bits",
    attrs: { to: traitsOf("uint64").code },
    inputs: [of("complex64", [1], [1, 2])],
    outputs: [of("uint64", [1], [0x400000003f800000n])],
  },
  {
    op: "BitCast",
    opset: 26,
    shows: "packed types",
    attrs: { to: traitsOf("uint4").code },
    inputs: [of("int4", [3], [-1, 7, -8])],
    outputs: [of("uint4", [3], [15, 7, 8])],
  },
  {
    op: "BitCast",
    opset: 26,
    shows: "widths that differ are refused",
    attrs: { to: traitsOf("int64").code },
    inputs: [of("float32", [1], [1])],
    throws: /to must have the 32 bits of float32, got int64 of 64/,
  },
  {
    op: "BitCast",
    opset: 26,
    shows: "strings are refused",
    attrs: { to: traitsOf("string").code },
    inputs: [of("uint8", [1], [1])],
    throws: /to must not be string/,
  },
];
