/**
 * DeepSeek: `<｜tool▁calls▁begin｜>` and calls between marks. V3 and R1 write `function<｜tool▁sep｜>name` and a block of JSON, V3.1 the name and its
 * JSON, V3.2 `<｜DSML｜invoke name="…">` with a parameter at a time.
 */
import { ArgumentsWriter } from "../arguments.js";
import type { Family, TemplateView, ToolSpec } from "../family.js";
import type { Reading, Steps } from "../reading.js";
import { eachTool, namedValues, several } from "../structure.js";

const all = { begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>" };
const one = { begin: "<｜tool▁call▁begin｜>", separator: "<｜tool▁sep｜>", end: "<｜tool▁call▁end｜>" };
const markup = { begin: "<｜DSML｜function_calls>", end: "</｜DSML｜function_calls>" };

const valueEnds = [{ mark: "</｜DSML｜parameter>", before: ["<｜DSML｜parameter ", "</｜DSML｜invoke>"] }];

const isMarkup = ({ source }: TemplateView): boolean => source.includes("｜DSML｜");
const isBlock = ({ source }: TemplateView): boolean => source.includes("```json");

function* markupCalls(reading: Reading): Steps<void> {
  for (let count = 0; ; count++) {
    yield* reading.blanks();
    if (count > 0 && (yield* reading.literal([markup.end])) !== undefined) return;
    if (count > 0) reading.open("");
    if ((yield* reading.literal(['<｜DSML｜invoke name="'])) === undefined) return reading.fail();
    const name = yield* reading.textUntil('">');
    if (name === undefined) return reading.fail();
    const made = new ArgumentsWriter(reading, name);
    for (;;) {
      yield* reading.blanks();
      const next = yield* reading.literal(['<｜DSML｜parameter name="', "</｜DSML｜invoke>"]);
      if (next === undefined) return;
      if (next.startsWith("</")) break;
      const key = yield* reading.textUntil('"');
      const isText = (yield* reading.textUntil(">"))?.includes('"true"') ?? true;
      if (key === undefined) return;
      if (!(yield* made.valueUntil(key, valueEnds, false, isText))) return;
    }
    made.end();
  }
}

/** `name⟨separator⟩{…}`, or `function⟨separator⟩name` and a block. False where it is none. */
function* call(reading: Reading): Steps<boolean> {
  const first = yield* reading.textUntil(one.separator);
  yield* reading.blanks();
  if (first === undefined || !(yield* reading.need(1))) {
    reading.fail();
    return false;
  }
  let name = first.trim();
  if (reading.next[0] !== "{") {
    name = yield* reading.name();
    yield* reading.blanks();
    yield* reading.literal(["```json"]);
  }
  if (!(yield* reading.jsonArguments(name))) return false;
  yield* reading.blanks();
  yield* reading.literal(["```"]);
  yield* reading.literal([one.end]);
  return true;
}

const parameters = (
  { name, parameters: schema }: ToolSpec,
  template: TemplateView,
): readonly (string | { schema: typeof schema })[] =>
  isBlock(template)
    ? [`${one.begin}function${one.separator}${name}\n\`\`\`json\n`, { schema }, `\n\`\`\`${one.end}`]
    : [`${one.begin}${name}${one.separator}`, { schema }, one.end];

/** The family. */
export const deepseek: Family = {
  name: "deepseek",
  matches: (template) =>
    template.source.includes(one.begin) || template.source.includes(all.begin) || isMarkup(template),
  markers: [all.begin, all.end, one.begin, one.separator, one.end, "｜DSML｜"],
  emptyContent: null,
  begins: [all.begin, one.begin, markup.begin],
  *call(mark, reading) {
    if (mark === markup.begin) return yield* markupCalls(reading);
    for (let count = 0, isOpen = mark === one.begin; ; count++) {
      yield* reading.blanks();
      if (count > 0) reading.open("");
      if (!isOpen && (yield* reading.literal([one.begin])) === undefined) break;
      if (!(yield* call(reading))) return;
      isOpen = false;
    }
    if ((yield* reading.literal([all.end])) === undefined) reading.fail();
    else reading.drop();
  },
  structure: (tools, parallel, template) =>
    isMarkup(template)
      ? {
          trigger: markup.begin,
          rest: {
            sequence: [
              "\n",
              several(
                eachTool(tools, (tool) => [
                  `<｜DSML｜invoke name="${tool.name}">\n`,
                  namedValues(tool, {
                    open: (name, isText) => `<｜DSML｜parameter name="${name}" string="${isText}">`,
                    close: "</｜DSML｜parameter>\n",
                    between: "",
                    texts: "bare",
                  }),
                  "</｜DSML｜invoke>\n",
                ]),
                "",
                parallel,
              ),
              markup.end,
            ],
          },
        }
      : {
          trigger: all.begin,
          rest: {
            sequence: [
              several(
                eachTool(tools, (tool) => parameters(tool, template)),
                isBlock(template) ? "\n" : "",
                parallel,
              ),
              all.end,
            ],
          },
        },
  write: (calls, template) =>
    `${all.begin}${calls
      .map(({ name, arguments: given }) =>
        isBlock(template)
          ? `${one.begin}function${one.separator}${name}\n\`\`\`json\n${JSON.stringify(given)}\n\`\`\`${one.end}`
          : `${one.begin}${name}${one.separator}${JSON.stringify(given)}${one.end}`,
      )
      .join(isBlock(template) ? "\n" : "")}${all.end}`,
};
