/** FunctionGemma, `<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>`, and Gemma 4, the same with other marks. */
import type { Family } from "../family.js";
import { LooseValues } from "../loose-values.js";
import { eachTool, namedValues, several } from "../structure.js";

interface GemmaMarks {
  readonly begin: string;
  readonly end: string;
  readonly quote: string;
}

function gemmaFamily({ begin, end, quote }: GemmaMarks, more: Pick<Family, "name" | "ends" | "thinking">): Family {
  const written = (value: unknown): string => {
    if (typeof value === "string") return quote + value + quote;
    if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
    if (typeof value !== "object" || value === null) return String(value);
    return `{${Object.entries(value)
      .map(([key, each]) => `${key}:${written(each)}`)
      .join(",")}}`;
  };
  return {
    ...more,
    matches: ({ source }) => source.includes(begin),
    markers: [begin, end, quote],
    begins: [begin],
    *call(_, reading) {
      if ((yield* reading.literal(["call:"])) === undefined) return reading.fail();
      const name = yield* reading.run(/[\w.-]/, 256);
      if (name === "" || (yield* reading.literal(["{"])) === undefined) return reading.fail();
      reading.begin(name);
      const tell = (text: string): void => reading.telling.arguments(text);
      tell("{");
      const style = { marks: [quote], types: (key: string) => reading.typesOf(name, key) };
      if (!(yield* new LooseValues(reading, tell, style).members("}", ":"))) return;
      tell("}");
      reading.done();
      yield* reading.literal([end]);
    },
    structure: (tools, parallel) => ({
      trigger: begin,
      rest: several(
        eachTool(tools, (tool) => [
          `call:${tool.name}{`,
          namedValues(tool, { open: (name) => `${name}:`, close: "", between: ",", texts: { mark: quote } }),
          `}${end}`,
        ]),
        begin,
        parallel,
      ),
    }),
    write: (calls) =>
      calls.map(({ name, arguments: given }) => `${begin}call:${name}${written(given ?? {})}${end}`).join(""),
  };
}

/** FunctionGemma. */
export const functionGemma: Family = gemmaFamily(
  { begin: "<start_function_call>", end: "<end_function_call>", quote: "<escape>" },
  { name: "function-gemma", ends: ["<start_function_response>"] },
);

/** Gemma 4. */
export const gemma: Family = gemmaFamily(
  { begin: "<|tool_call>", end: "<tool_call|>", quote: '<|"|>' },
  { name: "gemma", ends: ["<|tool_response>"], thinking: { begin: "<|channel>thought\n", end: "<channel|>" } },
);
