import { of, type OpCase } from "./shared/case.js";

const x = of("float32", [1, 2, 2], [1, 3, 2, -2]);
const vector = (...values: number[]) => of("float32", [values.length], values);
const attrs = { epsilon: { float: 0 } };

export const cases: readonly OpCase[] = [
  {
    op: "BatchNormalization",
    opset: 15,
    shows: "by the given statistics",
    attrs,
    inputs: [x, vector(1, 2), vector(0, 1), vector(1, 2), vector(4, 1)],
    outputs: [of("float32", [1, 2, 2], [0, 1, 1, -7])],
  },
  {
    op: "BatchNormalization",
    opset: 15,
    shows: "training mode uses the batch's statistics and updates the running ones",
    attrs: { ...attrs, training_mode: 1, momentum: { float: 0.5 } },
    inputs: [x, vector(1, 1), vector(0, 0), vector(0, 2), vector(1, 0)],
    outputs: [of("float32", [1, 2, 2], [-1, 1, 1, -1]), vector(1, 1), vector(1, 2)],
  },
  {
    op: "BatchNormalization",
    opset: 7,
    shows: "without spatial, every element has its own statistics",
    attrs: { ...attrs, spatial: 0 },
    inputs: [
      x,
      ...[
        [1, 1, 1, 1],
        [0, 0, 0, 1],
        [1, 1, 1, 1],
        [1, 1, 1, 1],
      ].map((values) => of("float32", [2, 2], values)),
    ],
    outputs: [of("float32", [1, 2, 2], [0, 2, 1, -2])],
  },
  {
    op: "BatchNormalization",
    opset: 9,
    shows: "training before opset 14 is refused",
    inputs: [x, vector(1, 1), vector(0, 0), vector(0, 2), vector(1, 0)],
    outputs: [x, vector(0, 0), vector(0, 0)],
    throws: /training mode, told by 3 outputs, is not supported before opset 14/,
  },
  {
    op: "BatchNormalization",
    opset: 15,
    shows: "a vector that does not fit the channels is refused",
    inputs: [x, vector(1, 1, 1), vector(0, 0), vector(0, 2), vector(1, 0)],
    throws: /scale needs one entry a channel, got 2 and 3/,
  },
];
