import { of, type OpCase } from "./shared/case.js";

const a = of("bool", [2, 1], [0, 1]);
const b = of("bool", [2], [0, 1]);

export const cases: readonly OpCase[] = [
  { op: "And", opset: 7, shows: "broadcast", inputs: [a, b], outputs: [of("bool", [2, 2], [0, 0, 0, 1])] },
  { op: "Or", opset: 7, shows: "broadcast", inputs: [a, b], outputs: [of("bool", [2, 2], [0, 1, 1, 1])] },
  { op: "Xor", opset: 7, shows: "broadcast", inputs: [a, b], outputs: [of("bool", [2, 2], [0, 1, 1, 0])] },
  { op: "Not", opset: 1, shows: "both values", inputs: [b], outputs: [of("bool", [2], [1, 0])] },
  {
    op: "And",
    opset: 7,
    shows: "numbers are refused",
    inputs: [a, of("uint8", [1], [1])],
    throws: /B must be bool, got tensor\(uint8\)/,
  },
];
