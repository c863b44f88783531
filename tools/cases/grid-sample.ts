import { of, type OpCase } from "./shared/case.js";

const image = of("float32", [1, 1, 2, 2], [1, 2, 3, 4]);

export const cases: readonly OpCase[] = [
  {
    op: "GridSample",
    opset: 16,
    shows: "the middle of four, a corner, and far outside",
    attrs: { align_corners: 1 },
    inputs: [image, of("float32", [1, 1, 3, 2], [0, 0, 1, -1, 9, 9])],
    outputs: [of("float32", [1, 1, 1, 3], [2.5, 2, 0])],
  },
  {
    op: "GridSample",
    opset: 20,
    shows: "a line, its border beyond its end",
    attrs: { padding_mode: "border", mode: "nearest" },
    inputs: [of("float32", [1, 1, 3], [1, 2, 3]), of("float32", [1, 2, 1], [-5, 5])],
    outputs: [of("float32", [1, 1, 2], [1, 3])],
  },
  {
    op: "GridSample",
    opset: 22,
    shows: "places of too many axes",
    inputs: [image, of("float32", [1, 1, 1, 3], [0, 0, 0])],
    throws: /the last dimension of grid must be 2, one for each axis of the image, got 3/,
  },
];
