/** Llama 3: a reply that is `{"name": …, "parameters": {…}}`, alone or behind `<|python_tag|>`, built-in tools as `name.call(key="value")`. */
import type { Family } from "../family.js";
import { pythonArguments } from "../loose-values.js";
import { eachTool, jsonCall } from "../structure.js";

const tag = "<|python_tag|>";

/** The family. */
export const llama: Family = {
  name: "llama3",
  matches: ({ source, hasToken }) =>
    source.includes(tag) ||
    (/["']parameters["']/.test(source) && (source.includes("<|start_header_id|>") || hasToken(tag))),
  markers: [],
  readMarkers: [tag],
  ends: ["<|eom_id|>"],
  begins: [tag],
  *call(_, reading) {
    yield* reading.blanks();
    if ((yield* reading.need(1)) && !"[{".includes(reading.next[0])) {
      const name = yield* reading.run(/\w/, 256);
      if (name === "" || (yield* reading.literal([".call("])) === undefined) return reading.fail();
      yield* pythonArguments(reading, name);
      return;
    }
    yield* reading.namedJsons([]);
  },
  *bareCall(reading) {
    yield* reading.blanks();
    if (!(yield* reading.need(1)) || reading.next[0] !== "{") return false;
    // An answer may be JSON that has a name.
    yield* reading.namedJsons([], true);
    return true;
  },
  // One call alone is what the template takes back.
  structure: (tools) => ({ trigger: "", rest: eachTool(tools, (tool) => jsonCall(tool, "parameters")) }),
  write: (calls) => calls.map(({ name, arguments: parameters }) => JSON.stringify({ name, parameters })).join("; "),
};
