/** Hermes, Qwen 2.5, Qwen 3 and many others: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, a block for each call. */
import type { Family } from "../family.js";
import { eachTool, jsonCall, several } from "../structure.js";

const [begin, end] = ["<tool_call>", "</tool_call>"];

/** The family. */
export const hermes: Family = {
  name: "hermes",
  matches: ({ source }) => source.includes(begin),
  markers: [begin, end],
  begins: [begin],
  call: (_, reading) => reading.namedJsons([end]),
  structure: (tools, parallel) => ({
    trigger: begin,
    rest: several(
      eachTool(tools, (tool) => ["\n", ...jsonCall(tool), `\n${end}`]),
      `\n${begin}`,
      parallel,
    ),
  }),
  write: (calls) => calls.map((call) => `${begin}\n${JSON.stringify(call)}\n${end}`).join("\n"),
};
