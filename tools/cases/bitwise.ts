import { of, type OpCase } from "./shared/case.js";

const shift = (
  direction: string,
  type: "int8" | "uint8" | "int32" | "uint32" | "uint64",
  x: bigint,
  by: bigint,
  z: bigint,
): OpCase => ({
  op: "BitShift",
  opset: 28,
  shows: `${type} ${x} shifted ${direction} by ${by}`,
  attrs: { direction },
  inputs: [of(type, [1], [x]), of(type, [1], [by])],
  outputs: [of(type, [1], [z])],
});

export const cases: readonly OpCase[] = [
  {
    op: "BitwiseAnd",
    opset: 18,
    shows: "the top bit of uint32 is a bit like the others",
    inputs: [of("uint32", [2], [0xffffffff, 6]), of("uint32", [1], [0x80000003])],
    outputs: [of("uint32", [2], [0x80000003, 2])],
  },
  {
    op: "BitwiseOr",
    opset: 18,
    shows: "64 bits",
    inputs: [of("uint64", [1], [2n ** 63n]), of("uint64", [1], [1n])],
    outputs: [of("uint64", [1], [2n ** 63n + 1n])],
  },
  {
    op: "BitwiseXor",
    opset: 18,
    shows: "negative numbers in two's complement",
    inputs: [of("int16", [1], [-1]), of("int16", [1], [5])],
    outputs: [of("int16", [1], [-6])],
  },
  {
    op: "BitwiseNot",
    opset: 18,
    shows: "signed and unsigned",
    inputs: [of("uint8", [2], [0, 5])],
    outputs: [of("uint8", [2], [255, 250])],
  },
  shift("LEFT", "uint8", 0x81n, 1n, 2n),
  shift("RIGHT", "uint32", 0xffffffffn, 31n, 1n),
  shift("LEFT", "uint64", 1n, 63n, 2n ** 63n),
  shift("RIGHT", "int8", -8n, 1n, -4n),
  shift("RIGHT", "int8", -8n, 9n, -1n),
  shift("RIGHT", "int8", 8n, -1n, 0n),
  shift("LEFT", "int32", 1n, 31n, -(2n ** 31n)),
  {
    op: "BitShift",
    opset: 11,
    shows: "a direction is required",
    inputs: [of("uint8", [1], [1]), of("uint8", [1], [1])],
    throws: /attribute "direction" is required/,
  },
];
