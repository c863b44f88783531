import { of, type OpCase } from "./shared/case.js";

export const cases: readonly OpCase[] = [
  {
    op: "If",
    opset: 13,
    shows: "both branches are required",
    inputs: [of("bool", [], [1])],
    throws: /attribute "else_branch" is required/,
  },
  {
    op: "Loop",
    opset: 13,
    shows: "a body is required",
    inputs: [of("int64", [], [1])],
    throws: /attribute "body" is required/,
  },
  {
    op: "Scan",
    opset: 9,
    shows: "a body is required",
    attrs: { num_scan_inputs: 1 },
    inputs: [of("float32", [1], [1])],
    throws: /attribute "body" is required/,
  },
];
