/** LFM2: `<|tool_call_start|>[name(key="value"), …]<|tool_call_end|>`, calls as Python writes them, or a list of JSON objects. */
import type { Family } from "../family.js";
import { pythonArguments } from "../loose-values.js";
import { eachTool, namedValues, several } from "../structure.js";

const [begin, end] = ["<|tool_call_start|>", "<|tool_call_end|>"];

const words = new Map<unknown, string>([
  [true, "True"],
  [false, "False"],
  [null, "None"],
]);

function python(value: unknown): string {
  const word = words.get(value);
  if (word !== undefined) return word;
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value as object)
    .map(([key, each]) => `${JSON.stringify(key)}: ${python(each)}`)
    .join(", ")}}`;
}

/** The family. */
export const lfm: Family = {
  name: "lfm2",
  matches: ({ source, hasToken }) =>
    source.includes(begin) || source.includes("<|tool_list_start|>") || hasToken(begin),
  markers: [begin, end],
  begins: [begin],
  *call(_, reading) {
    yield* reading.blanks();
    const isList = (yield* reading.literal(["["])) !== undefined;
    yield* reading.blanks();
    // A list of JSON, or an empty one.
    if ((yield* reading.need(1)) && (reading.next[0] === "{" || (isList && reading.next[0] === "]")))
      return yield* reading.namedJsons([end], false, isList);
    for (let count = 0; ; count++) {
      yield* reading.run(/[\s,[\]]/);
      if (count > 0 && (yield* reading.literal([end])) !== undefined) return;
      if (count > 0) reading.open("");
      const name = yield* reading.run(/[\w.-]/, 256);
      if (name === "" || (yield* reading.literal(["("])) === undefined) return reading.fail();
      if (!(yield* pythonArguments(reading, name))) return;
    }
  },
  structure: (tools, parallel) => ({
    trigger: begin,
    rest: {
      sequence: [
        "[",
        several(
          eachTool(tools, (tool) => [
            `${tool.name}(`,
            namedValues(tool, { open: (name) => `${name}=`, close: "", between: ", ", texts: "json" }),
            ")",
          ]),
          ", ",
          parallel,
        ),
        `]${end}`,
      ],
    },
  }),
  write: (calls) =>
    `${begin}[${calls
      .map(({ name, arguments: given }) => {
        const values = Object.entries((given ?? {}) as object).map(([key, value]) => `${key}=${python(value)}`);
        return `${name}(${values.join(", ")})`;
      })
      .join(", ")}]${end}`,
};
