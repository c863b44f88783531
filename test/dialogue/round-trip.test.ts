// What families write as calls they read back as it was given, whatever stands in the arguments and wherever the text is cut.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { familyOf } from "../../packages/dialogue/families.js";
import type { TemplateView, ToolSpec } from "../../packages/dialogue/family.js";
import { soak } from "../support/soak.js";
import { became, eventsOf } from "./support.js";

const tool: ToolSpec = {
  name: "note",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string" },
      title: { $ref: "#/$defs/title" },
      count: { type: "integer" },
      share: { anyOf: [{ type: "number" }, { type: "null" }] },
      isDone: { type: "boolean" },
      tags: { type: "array", items: { type: "string" } },
      more: { type: "object" },
    },
    $defs: { title: { allOf: [{ type: "string" }, { maxLength: 1000 }] } },
  },
};

/** Texts out of what readers look for, but for the marks that a family itself cannot escape. */
const signs =
  "</tool_call> <tool_call> </parameter> </function> <parameter=x> [ARGS] functools[ { } [ ] ( ) , ; : = \" ' \\ ` é 😀";
const words = "12 true None null a \\u00 \\n \"} '),";
const nasty = fc
  .array(fc.constantFrom(...`${signs} ${words}`.split(" "), " ", "\t", "\n", "\n\n"), { maxLength: 8 })
  .map((parts) => parts.join(""));

const plainValue = fc.oneof(nasty, fc.integer(), fc.boolean(), fc.constant(null));
const given = fc.record(
  {
    text: nasty,
    title: fc.oneof(nasty, fc.constantFrom("42", "true", "null", "[1]")),
    count: fc.integer(),
    share: fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant(null)),
    isDone: fc.boolean(),
    tags: fc.array(nasty, { maxLength: 3 }),
    more: fc.dictionary(
      fc.constantFrom("a", "b_c", "d"),
      fc.oneof(plainValue, fc.array(plainValue, { maxLength: 2 })),
      {
        noNullPrototype: true,
      },
    ),
  },
  { requiredKeys: [], noNullPrototype: true },
);

interface Form {
  readonly name: string;
  /** What its template shows of the form. */
  readonly source?: string;
  /** What a text in its calls cannot hold. */
  readonly not?: RegExp;
}
const coderMarks = /\n<parameter=|\n<\/function>|<\/parameter>\s*(<\/?tool_call>|<parameter=|<\/function>|$)/;
const forms: readonly Form[] = [
  ...[
    "hermes",
    "llama3",
    "mistral",
    "gemma",
    "function-gemma",
    "phi4",
    "deepseek",
    "glm",
    "lfm2",
    "harmony",
    "granite",
  ].map((name) => ({ name })),
  { name: "qwen-coder", not: coderMarks },
  { name: "mistral", source: "[ARGS]" },
  { name: "deepseek", source: "```json" },
  { name: "granite", source: "<|tool_call|>" },
];

const textsIn = (value: unknown): readonly string[] =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null
      ? Object.values(value).flatMap((each) => textsIn(each))
      : [];

/** As JSON has it: without a zero below zero. */
const sameNumbers = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe.each(forms)("$name $source", ({ name, source = "", not }) => {
  test("calls are read back", () => {
    const template: TemplateView = { source, hasToken: () => false };
    const family = familyOf(undefined, name)!;
    const property = fc.property(
      fc.array(given, { minLength: 1, maxLength: 2 }),
      fc.integer({ min: 1, max: 7 }),
      (all, size) => {
        fc.pre(not === undefined || !textsIn(all).some((text) => not.test(text)));
        const reply = family.write(
          all.map((each) => ({ name: "note", arguments: each })),
          template,
        );
        const pieces = reply.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
        const { text, calls } = became(eventsOf(name, pieces, { tools: [tool] }));
        expect(calls.map(([, written, isDone]) => [JSON.parse(written) as unknown, isDone])).toEqual(
          all.map((each) => [sameNumbers(each), true]),
        );
        expect(text).toBe("");
      },
    );
    fc.assert(property, { numRuns: soak ? 3000 : 150 });
  });
});
