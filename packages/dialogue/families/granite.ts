/** Granite 3: `<|tool_call|>` and a list of calls. Granite 4 writes a block for each, as Hermes does. Thoughts are followed by `<response>`. */
import type { Family, TemplateView } from "../family.js";
import { eachTool, jsonCall, several } from "../structure.js";
import { hermes } from "./hermes.js";

const mark = "<|tool_call|>";

const isOld = ({ source }: TemplateView): boolean => source.includes(mark);

/** The family. */
export const granite: Family = {
  name: "granite",
  matches: ({ source }) => source.includes("<|start_of_role|>"),
  markers: [mark, ...hermes.markers],
  dropped: ["<response>", "</response>"],
  begins: [mark, ...hermes.begins],
  call: (_, reading) => reading.namedJsons(hermes.markers.slice(1)),
  structure: (tools, parallel, template) =>
    isOld(template)
      ? {
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
        }
      : hermes.structure(tools, parallel, template),
  write: (calls, template) => (isOld(template) ? `${mark}${JSON.stringify(calls)}` : hermes.write(calls, template)),
};
