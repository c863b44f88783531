import { of, type OpCase } from "./shared/case.js";

const half = of("uint4", [3], [1, 15, 7]);
const words = of("string", [2], ["", "б"]);
const complex = of("complex64", [1], [1, -2]);

export const cases: readonly OpCase[] = [
  { op: "Identity", opset: 25, shows: "packed elements", inputs: [half], outputs: [half] },
  { op: "Identity", opset: 1, shows: "strings", inputs: [words], outputs: [words] },
  { op: "Identity", opset: 13, shows: "complex elements", inputs: [complex], outputs: [complex] },
];
