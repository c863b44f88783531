import { of, type OpCase } from "./shared/case.js";

const domain = "com.microsoft";
const count = (length: number): number[] => Array.from({ length }, (_, i) => (i % 16) - 8);

export const cases: readonly OpCase[] = [
  {
    op: "GatherBlockQuantized",
    domain,
    opset: 1,
    shows: "int4 without zero points; an index from the end; two blocks a row",
    attrs: { block_size: 16 },
    inputs: [
      of("int4", [2, 17], [...count(17), ...count(17)]),
      of("int64", [1], [-1]),
      of("float32", [2, 2], [0, 0, 1, 10]),
    ],
    outputs: [of("float32", [1, 17], [...count(16), -80])],
  },
  {
    op: "GatherBlockQuantized",
    domain,
    opset: 1,
    shows: "bytes of two values, with packed zero points; the output is twice as wide",
    attrs: { block_size: 16, bits: 4 },
    inputs: [
      of("uint8", [2, 9], [1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0x43]),
      of("int32", [2], [1, 0]),
      of("float32", [2, 2], [1, 1, 1, 2]),
      of("uint8", [2, 1], [0x10, 0x21]),
    ],
    outputs: [
      of(
        "float32",
        [2, 18],
        [...new Array<number>(16).fill(-1), 2, 4, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 0, 1],
      ),
    ],
  },
  {
    op: "GatherBlockQuantized",
    domain,
    opset: 1,
    shows: "blocks along the first axis, gathered along the second",
    attrs: { block_size: 16, quantize_axis: 0, gather_axis: 1 },
    inputs: [
      of("uint4", [2, 2], [1, 2, 3, 4]),
      of("int64", [], [1]),
      of("float16", [1, 2], [1, 2]),
      of("uint4", [1, 2], [0, 1]),
    ],
    outputs: [of("float16", [2], [2, 6])],
  },
  {
    op: "GatherBlockQuantized",
    domain,
    opset: 1,
    shows: "an index outside of data is refused",
    attrs: { block_size: 16 },
    inputs: [of("int4", [1, 1], [1]), of("int64", [1], [1]), of("float32", [1, 1], [1])],
    throws: /indices\[0\] must lie in \[-1, 0\], got 1/,
  },
  {
    op: "GatherBlockQuantized",
    domain,
    opset: 1,
    shows: "scales that do not cover the blocks are refused",
    attrs: { block_size: 16 },
    inputs: [of("int4", [1, 17], count(17)), of("int64", [1], [0]), of("float32", [1, 1], [1])],
    throws: /scales must cover the blocks of axis 1, got 1 and 2/,
  },
];
