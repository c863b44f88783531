// Replies that are not quite what a family's template shows, as models write them: what can be told is told, and no character is lost.
import { describe, expect, test } from "vitest";
import type { ToolSpec } from "../../packages/dialogue/family.js";
import { readAnyhow } from "./support.js";

const tools: readonly ToolSpec[] = [
  {
    name: "f",
    parameters: {
      type: "object",
      properties: {
        text: { type: "string" },
        other: { type: "string" },
        count: { type: "integer" },
        share: { type: "number" },
        isDone: { type: "boolean" },
        list: { type: "array" },
        object: { type: "object" },
        maybe: { type: ["integer", "null"] },
        named: { $ref: "#/$defs/name" },
        all: { allOf: [{ $ref: "#/$defs/name" }] },
        free: {},
      },
      $defs: { name: { type: "string" } },
    },
  },
];

/** The arguments of the only call, which is whole, of a reply without text. */
const argumentsOf = (family: string, reply: string): unknown => {
  const { text, calls } = readAnyhow(family, reply, { tools });
  expect([text, calls.length, calls[0]?.[2]]).toEqual(["", 1, true]);
  return JSON.parse(calls[0][1]);
};

const coder = (...parameters: readonly string[]): string =>
  `<tool_call>\n<function=f>\n${parameters.join("\n")}\n</function>\n</tool_call>`;
const one = (name: string, value: string): string => `<parameter=${name}>\n${value}\n</parameter>`;
const dsml = (name: string, isText: boolean, value: string): string =>
  `<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="${name}" string="${isText}">${value}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>`;
const pair = (name: string, value: string): string =>
  `<tool_call>f\n<arg_key>${name}</arg_key>\n<arg_value>${value}</arg_value>\n</tool_call>`;
const python = (given: string): string => `<|tool_call_start|>[f(${given})]<|tool_call_end|>`;
const gemma = (given: string): string => `<|tool_call>call:f{${given}}<tool_call|>`;

describe("arguments are of the types that the schema gives them", () => {
  test.each([
    ["qwen-coder", coder(one("named", "42"), one("all", "true")), { named: "42", all: "true" }],
    [
      "qwen-coder",
      coder(one("isDone", "TRUE"), one("maybe", "None"), one("share", ".5")),
      { isDone: true, maybe: null, share: 0.5 },
    ],
    ["qwen-coder", coder(one("object", "{'a': [1, None], 'b': \"it's\"}")), { object: { a: [1, null], b: "it's" } }],
    ["qwen-coder", coder(one("list", "('x', True)")), { list: ["x", true] }],
    ["qwen-coder", coder(one("object", "{'a': ")), { object: "{'a': " }],
    ["qwen-coder", coder(one("free", '"x"'), one("other", '"x"')), { free: "x", other: '"x"' }],
    ["glm", pair("named", "007"), { named: "007" }],
    ["deepseek", dsml("text", false, "12"), { text: "12" }],
    ["deepseek", dsml("count", true, "12"), { count: 12 }],
    ["deepseek", dsml("free", true, "12"), { free: "12" }],
    ["gemma", gemma('text:12,count:<|"|>12<|"|>,share:108.'), { text: "12", count: 12, share: 108 }],
    ["lfm2", python("count=07, share=+1_000.5, text=02134"), { count: 7, share: 1000.5, text: "02134" }],
  ])("%s %s", (family, reply, is) => {
    expect(argumentsOf(family, reply)).toEqual(is);
  });

  test("digits stay as they were written", () => {
    const reply = coder(one("count", "12345678901234567890"), one("list", "[9007199254740993]"));
    expect(readAnyhow("qwen-coder", reply, { tools }).calls[0][1]).toBe(
      '{"count": 12345678901234567890, "list": [9007199254740993]}',
    );
  });
});

describe("values that hold what closes them, or that nothing closes", () => {
  test.each([
    ["qwen-coder", coder(one("text", "print('</parameter>')")), { text: "print('</parameter>')" }],
    ["qwen-coder", coder("<parameter=text>\na", one("other", "b")), { text: "a", other: "b" }],
    ["qwen-coder", coder(one("text", "a"), "<parameter=other>\nb"), { text: "a", other: "b" }],
    ["qwen-coder", '<tool_call>\n{"name": "f", "arguments": {"text": "a"}}\n</tool_call>', { text: "a" }],
    ["glm", pair("text", "<a></arg_value></a>"), { text: "<a></arg_value></a>" }],
    ["lfm2", python("text='sed -n '1,2p' /a.py', other='b'"), { text: "sed -n '1,2p' /a.py", other: "b" }],
    ["lfm2", python('text="""a\n"b" """'), { text: 'a\n"b" ' }],
  ])("%s %s", (family, reply, is) => {
    expect(argumentsOf(family, reply)).toEqual(is);
  });
});

describe("texts as Python writes them", () => {
  test.each([
    [String.raw`'\d+\s \. \N{BULLET}'`, String.raw`\d+\s \. \N{BULLET}`],
    [String.raw`'C:\users\xyz'`, String.raw`C:\users\xyz`],
    [String.raw`'\x41\u00e9\U0001f600\101\0\a'`, "Aé😀A\0\x07"],
    [String.raw`r'\d\n'`, String.raw`\d\n`],
    [String.raw`''`, ""],
  ])("%s", (written, text) => {
    expect(argumentsOf("lfm2", python(`text=${written}`))).toEqual({ text });
  });

  test("a set is a list", () => {
    expect(argumentsOf("lfm2", python("list={'a', 'b'}, object={}"))).toEqual({ list: ["a", "b"], object: {} });
  });
});

describe("JSON that is not quite JSON", () => {
  const block = (given: string): string => `<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>`;
  test.each([
    ["hermes", block('{"text": "a\n\tb"}'), { text: "a\n\tb" }],
    ["hermes", block('""'), {}],
    ["mistral", '[TOOL_CALLS]f[ARGS]{"text": "a\nb"}', { text: "a\nb" }],
    ["harmony", "<|channel|>commentary to=functions.f <|constrain|>json<|message|><|call|>", {}],
  ])("%s %s", (family, reply, is) => {
    expect(argumentsOf(family, reply)).toEqual(is);
  });
});

describe("lists of calls", () => {
  test.each([
    ["lfm2", "<|tool_call_start|>[]<|tool_call_end|>None.", "None."],
    ["granite", "<|tool_call|>[]", ""],
    ["phi4", "functools[] is a word", "functools[] is a word"],
  ])("%s: %s calls nothing", (family, reply, text) => {
    expect(readAnyhow(family, reply, { tools })).toEqual({ text, reasoning: "", calls: [] });
  });

  test.each([
    ["hermes", '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'],
    ["phi4", '<|tool_call|>[{"name": "f", "arguments": {}}]<|/tool_call|>'],
    ["granite", '<tool_call>{"name": "f", "arguments": {}}</tool_call>'],
    ["lfm2", "<|tool_call_start|>[f()]<|tool_call_end|>"],
    ["qwen-coder", coder()],
  ])("%s: what closes a call is no text where the reply is cut in it", (family, reply) => {
    const from = Math.max(...["}", ")", "</function>"].map((end) => reply.lastIndexOf(end) + end.length));
    for (let length = from; length <= reply.length; length++)
      expect(readAnyhow(family, reply.slice(0, length), { tools }, 3).text).toBe("");
  });

  test("what follows on a call is text, brackets too", () => {
    const reply = '[TOOL_CALLS][{"name": "f", "arguments": {}}] [1] says so';
    expect(readAnyhow("mistral", reply, { tools })).toEqual({
      text: "[1] says so",
      reasoning: "",
      calls: [["f", "{}", true]],
    });
  });
});
