/** Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, and in newer models `[TOOL_CALLS]name[ARGS]{…}` for each call. */
import type { Family, TemplateView } from "../family.js";
import { eachTool, jsonCall, several } from "../structure.js";

const mark = "[TOOL_CALLS]";

const isNew = ({ source }: TemplateView): boolean => source.includes("[ARGS]");

/** The family. */
export const mistral: Family = {
  name: "mistral",
  matches: ({ source }) => source.includes(mark) || source.includes("[AVAILABLE_TOOLS]"),
  markers: [mark, "[ARGS]"],
  readMarkers: ["[CALL_ID]"],
  begins: [mark],
  *call(_, reading) {
    yield* reading.blanks();
    if ((yield* reading.need(1)) && "[{".includes(reading.next[0])) return yield* reading.namedJsons([]);
    const name = yield* reading.run(/[\w.-]/, 256);
    if ((yield* reading.literal(["[CALL_ID]"])) !== undefined) yield* reading.run(/\w/, 256);
    yield* reading.literal(["[ARGS]"]);
    yield* reading.jsonArguments(name);
  },
  structure: (tools, parallel, template) =>
    isNew(template)
      ? {
          trigger: mark,
          rest: several(
            eachTool(tools, ({ name, parameters }) => [`${name}[ARGS]`, { schema: parameters }]),
            mark,
            parallel,
          ),
        }
      : {
          trigger: mark,
          rest: {
            sequence: [
              "[",
              several(
                eachTool(tools, (tool) => jsonCall(tool)),
                ", ",
                parallel,
              ),
              "]",
            ],
          },
        },
  write: (calls, template) =>
    isNew(template)
      ? calls.map(({ name, arguments: given }) => `${mark}${name}[ARGS]${JSON.stringify(given)}`).join("")
      : `${mark}${JSON.stringify(calls)}`,
  shortIds: true,
};
