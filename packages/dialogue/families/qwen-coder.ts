/** Qwen3-Coder and Qwen 3.5: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`, values on lines of their own. */
import { ArgumentsWriter } from "../arguments.js";
import type { Family, ToolSpec } from "../family.js";
import type { Reading, Steps } from "../reading.js";
import { eachTool, namedValues, several } from "../structure.js";

const [begin, end] = ["<tool_call>", "</tool_call>"];
const parameter = {
  open: (name: string): string => `<parameter=${name}>\n`,
  close: "\n</parameter>\n",
  between: "",
  texts: "bare",
  without: ["\n<parameter=", "\n</function>"],
} as const;

/** Models leave out what closes a parameter. */
const valueEnds = [
  { mark: "</parameter>", before: ["<parameter=", "</function>", begin, end] },
  { mark: "\n<parameter=", stays: true },
  { mark: "\n</function>", before: ["<function=", begin, end], stays: true },
];

/** Reads functions up to the block's end. The block's own marks may be left out. */
function* call(mark: string, reading: Reading): Steps<void> {
  if (mark === begin) {
    yield* reading.blanks();
    // Some replies fall back to the form of Qwen 3.
    if ((yield* reading.need(1)) && reading.next[0] === "{") return yield* reading.namedJsons([end]);
    if ((yield* reading.literal(["<function="])) === undefined) return reading.fail();
  }
  const name = yield* reading.name();
  if (name === "" || (yield* reading.literal([">"])) === undefined) return reading.fail();
  const made = new ArgumentsWriter(reading, name);
  for (;;) {
    yield* reading.blanks();
    const next = yield* reading.literal(["<parameter=", "</function>"]);
    if (next === undefined) return reading.fail();
    if (next === "</function>") break;
    const key = yield* reading.textUntil(">");
    if (key === undefined || !(yield* made.valueUntil(key, valueEnds, true))) return;
  }
  made.end();
  yield* reading.blanks();
  yield* reading.literal([end]);
}

/** The family. */
export const qwenCoder: Family = {
  name: "qwen-coder",
  matches: ({ source }) => source.includes("<function=") && source.includes("<parameter="),
  markers: [begin, end],
  begins: [begin, "<function="],
  call,
  structure: (tools, parallel) => ({
    trigger: begin,
    rest: several(
      eachTool(tools, (tool: ToolSpec) => [
        `\n<function=${tool.name}>\n`,
        namedValues(tool, parameter),
        `</function>\n${end}`,
      ]),
      `\n${begin}`,
      parallel,
    ),
  }),
  write: (calls) =>
    calls
      .map(({ name, arguments: given }) => {
        const values = Object.entries((given ?? {}) as object).map(
          ([key, value]) =>
            `${parameter.open(key)}${typeof value === "string" ? value : JSON.stringify(value)}${parameter.close}`,
        );
        return `${begin}\n<function=${name}>\n${values.join("")}</function>\n${end}`;
      })
      .join("\n"),
};
