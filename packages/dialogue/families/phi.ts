/** Phi-4-mini: `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`, and `functools[…]`, which is the same in words. */
import type { Family } from "../family.js";
import { eachTool, jsonCall, several } from "../structure.js";

const [begin, end] = ["<|tool_call|>", "<|/tool_call|>"];

/** The family. */
export const phi: Family = {
  name: "phi4",
  matches: ({ source, hasToken }) => (source.includes("<|tool|>") && hasToken(begin)) || source.includes("functools"),
  markers: [begin, end],
  systemTools: true,
  begins: [begin, "functools"],
  *call(mark, reading) {
    // The word alone is text.
    const isBegun = mark === "functools";
    if (isBegun && (yield* reading.literal(["["])) === undefined) return reading.fail();
    if (isBegun) yield* reading.blanks();
    if (isBegun && (!(yield* reading.need(1)) || reading.next[0] !== "{")) return reading.fail();
    yield* reading.namedJsons([end], false, isBegun);
  },
  structure: (tools, parallel) => ({
    trigger: begin,
    rest: {
      sequence: [
        "[",
        several(
          eachTool(tools, (tool) => jsonCall(tool)),
          ", ",
          parallel,
        ),
        `]${end}`,
      ],
    },
  }),
  write: (calls) => `${begin}${JSON.stringify(calls)}${end}`,
};
