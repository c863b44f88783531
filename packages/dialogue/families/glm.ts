/** GLM 4.5 and later: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`. */
import { ArgumentsWriter } from "../arguments.js";
import type { Family } from "../family.js";
import { eachTool, namedValues, several } from "../structure.js";

const [begin, end] = ["<tool_call>", "</tool_call>"];
const valueEnds = [{ mark: "</arg_value>", before: ["<arg_key>", end] }];
const value = {
  open: (name: string): string => `<arg_key>${name}</arg_key>\n<arg_value>`,
  close: "</arg_value>\n",
  between: "",
  texts: "bare",
} as const;

/** The family. */
export const glm: Family = {
  name: "glm",
  matches: ({ source }) => source.includes("<arg_key>"),
  markers: [begin, end, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
  ends: ["<|observation|>", "<|user|>"],
  begins: [begin],
  *call(_, reading) {
    yield* reading.blanks();
    const name = yield* reading.name();
    yield* reading.blanks();
    let next = yield* reading.literal(["<arg_key>", end]);
    if (name === "" || next === undefined) return reading.fail();
    const made = new ArgumentsWriter(reading, name);
    while (next === "<arg_key>") {
      const key = yield* reading.textUntil("</arg_key>");
      yield* reading.blanks();
      if (key === undefined || (yield* reading.literal(["<arg_value>"])) === undefined) return reading.fail();
      if (!(yield* made.valueUntil(key.trim(), valueEnds, false))) return;
      yield* reading.blanks();
      next = yield* reading.literal(["<arg_key>", end]);
    }
    if (next === end) made.end();
    else reading.fail();
  },
  structure: (tools, parallel) => ({
    trigger: begin,
    rest: several(
      eachTool(tools, (tool) => [`${tool.name}\n`, namedValues(tool, value), end]),
      `\n${begin}`,
      parallel,
    ),
  }),
  write: (calls) =>
    calls
      .map(({ name, arguments: given }) => {
        const values = Object.entries((given ?? {}) as object).map(
          ([key, each]) => `${value.open(key)}${typeof each === "string" ? each : JSON.stringify(each)}${value.close}`,
        );
        return `${begin}${name}\n${values.join("")}${end}`;
      })
      .join("\n"),
};
