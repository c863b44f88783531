import { of, type OpCase } from "./shared/case.js";

const deep = of("int32", [1, 8, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]);
const wide = of("int32", [1, 2, 2, 2], [0, 2, 4, 6, 1, 3, 5, 7]);
const sorted = of("int32", [1, 2, 2, 2], [0, 1, 2, 3, 4, 5, 6, 7]);

export const cases: readonly OpCase[] = [
  {
    op: "DepthToSpace",
    opset: 9,
    shows: "blocks outermost in the channels",
    attrs: { blocksize: 2 },
    inputs: [deep],
    outputs: [wide],
  },
  {
    op: "DepthToSpace",
    opset: 13,
    shows: "blocks innermost in the channels",
    attrs: { blocksize: 2, mode: "CRD" },
    inputs: [deep],
    outputs: [sorted],
  },
  { op: "SpaceToDepth", opset: 13, shows: "the way back", attrs: { blocksize: 2 }, inputs: [wide], outputs: [deep] },
  {
    op: "SpaceToDepth",
    opset: 28,
    shows: "the way back, blocks innermost",
    attrs: { blocksize: 2, mode: "CRD" },
    inputs: [sorted],
    outputs: [deep],
  },
  {
    op: "SpaceToDepth",
    opset: 13,
    shows: "a mode comes with opset 28",
    attrs: { blocksize: 2, mode: "CRD" },
    inputs: [sorted],
    throws: /unknown attribute "mode"/,
  },
  {
    op: "DepthToSpace",
    opset: 13,
    shows: "channels that are no multiple are refused",
    attrs: { blocksize: 3 },
    inputs: [deep],
    throws: /the channels of input \[1,8,1,1\] must be a multiple of 9, got 8/,
  },
  {
    op: "SpaceToDepth",
    opset: 13,
    shows: "a block of 0 is refused",
    attrs: { blocksize: 0 },
    inputs: [wide],
    throws: /blocksize must be positive, got 0/,
  },
  {
    op: "SpaceToDepth",
    opset: 13,
    shows: "three dimensions are refused",
    attrs: { blocksize: 1 },
    inputs: [of("int8", [1, 1, 1], [1])],
    throws: /input must have 4 dimensions/,
  },
];
