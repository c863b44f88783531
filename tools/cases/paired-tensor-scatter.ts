import { of, type OpCase } from "./shared/case.js";

const call = { op: "PairedTensorScatter", domain: "insitu", opset: 1 } as const;
const [pastKey, pastValue] = [
  of("float32", [1, 3, 2], [1, 2, 3, 4, 5, 6]),
  of("float32", [1, 3, 2], [10, 20, 30, 40, 50, 60]),
];
const [key, value] = [of("float32", [1, 1, 2], [7, 8]), of("float32", [1, 1, 2], [70, 80])];

export const cases: readonly OpCase[] = [
  {
    ...call,
    shows: "a row of each goes into its own cache",
    attrs: { axis: 1 },
    inputs: [pastKey, pastValue, key, value, of("int64", [1], [1])],
    outputs: [of("float32", [1, 3, 2], [1, 2, 7, 8, 5, 6]), of("float32", [1, 3, 2], [10, 20, 70, 80, 50, 60])],
  },
  {
    ...call,
    shows: "without indices rows are written from the first on",
    inputs: [pastKey, pastValue, key, value],
    outputs: [of("float32", [1, 3, 2], [7, 8, 3, 4, 5, 6]), of("float32", [1, 3, 2], [70, 80, 30, 40, 50, 60])],
  },
  {
    ...call,
    shows: "circular caches go on at the first row, each sample at its own",
    attrs: { mode: "circular" },
    inputs: [
      of("float32", [2, 3, 1], [1, 2, 3, 4, 5, 6]),
      of("float32", [2, 3, 1], [10, 20, 30, 40, 50, 60]),
      of("float32", [2, 2, 1], [7, 8, 9, 0]),
      of("float32", [2, 2, 1], [70, 80, 90, 0]),
      of("int64", [2], [5, 1]),
    ],
    outputs: [of("float32", [2, 3, 1], [8, 2, 7, 4, 9, 0]), of("float32", [2, 3, 1], [80, 20, 70, 40, 90, 0])],
  },
  {
    ...call,
    shows: "a row behind the last is refused",
    inputs: [pastKey, pastValue, key, value, of("int64", [1], [3])],
    throws: /linear mode needs write_indices\[0\] \+ length <= capacity, got 3 \+ 1 > 3/,
  },
  {
    ...call,
    shows: "rows of another width are refused for the value too",
    inputs: [pastKey, pastValue, key, of("float32", [1, 1, 3], [1, 2, 3]), of("int64", [1], [0])],
    throws: /past_cache and update must agree in dimension 2/,
  },
];
