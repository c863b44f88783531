// Replies as the families' public templates and documentation write them: a call, several, a call with text, thoughts and a call, and broken ones.
import type { Became, ReadOptions } from "./support.js";

/** One reply and what it is. */
export interface Transcript {
  readonly what: string;
  readonly family: string;
  readonly reply: string;
  readonly is: Partial<Became>;
  readonly options?: ReadOptions;
}

const bern = '{"city": "Bern", "days": 3}';
const seek = '{"query": "a < b & \\"c\\"", "filter": {"year": [2024, 2025]}}';
const weather = ["get_weather", bern, true] as const;
const search = ["search", seek, true] as const;
const now = ["now", "{}", true] as const;
const named = (name: string, given: string, key = "arguments"): string => `{"name": "${name}", "${key}": ${given}}`;

const family = (
  name: string,
  replies: Readonly<Record<string, readonly [string, Partial<Became>, ReadOptions?]>>,
): Transcript[] =>
  Object.entries(replies).map(([what, [reply, is, options]]) => ({
    what,
    family: name,
    reply,
    is,
    ...(options === undefined ? {} : { options }),
  }));

const block = (name: string, given: string): string => `<tool_call>\n${named(name, given)}\n</tool_call>`;
const hermes = family("hermes", {
  "a call": [block("get_weather", bern), { calls: [weather] }],
  "several calls": [
    `${block("get_weather", bern)}\n${block("search", seek)}\n${block("now", "{}")}`,
    { calls: [weather, search, now] },
  ],
  "a call with text": [
    `I look it up.\n\n${block("get_weather", bern)}\nThere.`,
    { text: "I look it up.There.", calls: [weather] },
  ],
  "thoughts and a call": [
    `<think>\nBern, then.\n</think>\n\n${block("get_weather", bern)}`,
    { reasoning: "Bern, then.", calls: [weather] },
  ],
  "thoughts that the prompt opened": [
    "\nIt is two.\n</think>\n\n2",
    { reasoning: "It is two.", text: "2" },
    { isThinking: true },
  ],
  "a broken call": [
    "<tool_call>\nnot json</tool_call> and on",
    { text: "<tool_call>\nnot json</tool_call> and on", calls: [] },
  ],
  "a call without a name": ['<tool_call>{"x": 1}</tool_call>', { text: '<tool_call>{"x": 1}</tool_call>', calls: [] }],
  "a call that was cut": [
    '<tool_call>{"name": "now", "arguments": {"x": ',
    { text: "", calls: [["now", '{"x": ', false]] },
  ],
  "arguments before the name, as text, and left out": [
    '<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call><tool_call>{"name":"g","arguments":"{\\"y\\":2}"}</tool_call><tool_call>{"name": "h"}</tool_call>',
    {
      calls: [
        ["f", '{"x": 1}', true],
        ["g", '{"y":2}', true],
        ["h", "{}", true],
      ],
    },
  ],
  "no tools are given": [block("now", "{}"), { text: block("now", "{}"), calls: [] }, { tools: undefined }],
  "thoughts that never end": ["<think>\nand on and on", { reasoning: "and on and on", text: "" }],
  "a sign that is none": ["a < b <tool and </think> too ", { text: "a < b <tool and </think> too " }],
});

const xml = (name: string, values: Readonly<Record<string, string>>): string =>
  `<tool_call>\n<function=${name}>\n${Object.entries(values)
    .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
    .join("")}</function>\n</tool_call>`;
const qwenCoder = family("qwen-coder", {
  "a call": [xml("get_weather", { city: "Bern", days: "3" }), { calls: [weather] }],
  "several calls": [
    `${xml("get_weather", { city: "Bern", days: "3" })}\n${xml("search", { query: 'a < b & "c"', filter: '{"year": [2024, 2025]}' })}\n${xml("now", {})}`,
    { calls: [weather, ["search", '{"query": "a < b & \\"c\\"", "filter": {"year": [2024, 2025]}}', true], now] },
  ],
  "a call with text": [
    `I look it up.\n\n${xml("get_weather", { city: "Bern", days: "3" })}`,
    { text: "I look it up.", calls: [weather] },
  ],
  "thoughts and a call": [
    `Bern.\n</think>\n\n${xml("get_weather", { city: "Bern", days: "3" })}`,
    { reasoning: "Bern.", text: "", calls: [weather] },
    { isThinking: true },
  ],
  "lines, marks and numbers in a text": [
    xml("search", { query: "42\n</parameter\n\n<b>true</b>\n" }),
    { calls: [["search", JSON.stringify({ query: "42\n</parameter\n\n<b>true</b>\n" }).replace('":"', '": "'), true]] },
  ],
  "values as Python writes them": [
    xml("get_weather", { city: "12", exact: "True", hours: "[1, 2]" }),
    { calls: [["get_weather", '{"city": "12", "exact": true, "hours": [1, 2]}', true]] },
  ],
  "without the outer block": ["<function=now>\n</function>", { calls: [now] }],
  "a broken call": ["<tool_call>\n{oh}\n</tool_call>", { text: "<tool_call>\n{oh}\n</tool_call>", calls: [] }],
  "a call that was cut": [
    "<tool_call>\n<function=search>\n<parameter=query>\nab",
    { calls: [["search", '{"query": "ab', false]] },
  ],
});

const pairs = (name: string, values: Readonly<Record<string, string>>): string =>
  `<tool_call>${name}\n${Object.entries(values)
    .map(([key, value]) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`)
    .join("")}</tool_call>`;
const glm = family("glm", {
  "a call": [`\n${pairs("get_weather", { city: "Bern", days: "3" })}`, { text: "", calls: [weather] }],
  "several calls": [
    `${pairs("get_weather", { city: "Bern", days: "3" })}\n${pairs("now", {})}`,
    { calls: [weather, now] },
  ],
  "a call with text": [`I look.\n${pairs("now", {})}`, { text: "I look.", calls: [now] }],
  "thoughts and a call": [
    `\n<think>Bern.</think>\n${pairs("get_weather", { city: "Bern", days: "3" })}`,
    { reasoning: "Bern.", text: "", calls: [weather] },
  ],
  "in one line": [
    "<tool_call>search<arg_key>query</arg_key><arg_value>x</arg_value></tool_call>",
    { calls: [["search", '{"query": "x"}', true]] },
  ],
  "a broken call": ["<tool_call>search<b>?", { text: "<tool_call>search<b>?", calls: [] }],
  "a call that was cut": [
    "<tool_call>search\n<arg_key>query</arg_key>\n<arg_value>ab",
    { calls: [["search", '{"query": "ab', false]] },
  ],
});

const tag = "<|python_tag|>";
const llama = family("llama3", {
  "a call": [named("get_weather", bern, "parameters"), { calls: [weather] }],
  "several calls": [
    `${tag}${named("get_weather", bern, "parameters")}; ${named("now", "{}", "parameters")}`,
    { calls: [weather, now] },
  ],
  "a call with text": [
    `Let me see.\n${tag}${named("get_weather", bern, "parameters")}`,
    { text: "Let me see.", calls: [weather] },
  ],
  "thoughts and a call": [
    `<think>Bern.</think>${named("get_weather", bern, "parameters")}`,
    { reasoning: "Bern.", calls: [weather] },
  ],
  "a built-in tool": [
    `${tag}brave_search.call(query="what's \\"new\\"?")`,
    { calls: [["brave_search", '{"query": "what\'s \\"new\\"?"}', true]] },
  ],
  "a broken call": ['{"answer": 42}', { text: '{"answer": 42}', calls: [] }],
  "Python behind the tag": [`${tag}print(1)`, { text: `${tag}print(1)`, calls: [] }],
  "an answer that has a name": ['{"name": "Ada", "age": 36}', { text: '{"name": "Ada", "age": 36}', calls: [] }],
  "braces within text": ['It is {"name": "f"}.', { text: 'It is {"name": "f"}.', calls: [] }],
});

const mistral = family("mistral", {
  "a call": [`[TOOL_CALLS][${named("get_weather", bern)}]`, { calls: [weather] }],
  "several calls": [`[TOOL_CALLS] [${named("get_weather", bern)}, ${named("now", "{}")}]`, { calls: [weather, now] }],
  "a call of the newer form": [`[TOOL_CALLS]get_weather[ARGS]${bern}`, { calls: [weather] }],
  "several of the newer form, with ids": [
    `[TOOL_CALLS]get_weather[CALL_ID]abc123DEF[ARGS]${bern}[TOOL_CALLS]search{"query": "x"}`,
    { calls: [weather, ["search", '{"query": "x"}', true]] },
  ],
  "a call with text": [`Well.[TOOL_CALLS]get_weather[ARGS]${bern}`, { text: "Well.", calls: [weather] }],
  "thoughts and a call": [
    `[THINK]Bern.[/THINK][TOOL_CALLS]get_weather[ARGS]${bern}`,
    { reasoning: "Bern.", calls: [weather] },
    { thinking: { begin: "[THINK]", end: "[/THINK]" } },
  ],
  "a broken call": ["[TOOL_CALLS] none needed", { text: "[TOOL_CALLS] none needed", calls: [] }],
  "a call that was cut": ['[TOOL_CALLS]now[ARGS]{"x"', { calls: [["now", '{"x"', false]] }],
});

const gemmaCalls = (
  begin: string,
  end: string,
  quote: string,
  think: readonly [string, string],
): Parameters<typeof family>[1] => {
  const q = (text: string): string => quote + text + quote;
  const call = (name: string, given: string): string => `${begin}call:${name}{${given}}${end}`;
  const first = call("get_weather", `city:${q("Bern")},days:3`);
  return {
    "a call": [first, { calls: [weather] }],
    "several calls": [`${first}${call("now", "")}`, { calls: [weather, now] }],
    "a call with text": [`I look.\n${first}`, { text: "I look.", calls: [weather] }],
    "thoughts and a call": [`${think[0]}Bern.${think[1]}${first}`, { reasoning: "Bern.", calls: [weather] }],
    "marks in texts, lists and objects": [
      call("search", `query:${q('a, "b": {c}')},filter:{year:[2024,${q("x")}],on:true,off:null}`),
      {
        calls: [
          ["search", '{"query": "a, \\"b\\": {c}", "filter": {"year": [2024, "x"], "on": true, "off": null}}', true],
        ],
      },
    ],
    "a broken call": [`${begin}calls nothing${end}`, { text: `${begin}calls nothing${end}`, calls: [] }],
    "a call that was cut": [`${begin}call:search{query:${quote}ab`, { calls: [["search", '{"query": "ab', false]] }],
  };
};
const functionGemma = family(
  "function-gemma",
  gemmaCalls("<start_function_call>", "<end_function_call>", "<escape>", ["<think>", "</think>"]),
);
const gemma = family(
  "gemma",
  gemmaCalls("<|tool_call>", "<tool_call|>", '<|"|>', ["<|channel>thought\n", "\n<channel|>"]),
);

const phi = family("phi4", {
  "a call": [`<|tool_call|>[${named("get_weather", bern)}]<|/tool_call|>`, { calls: [weather] }],
  "several calls": [
    `<|tool_call|>[${named("get_weather", bern)}, ${named("now", "{}")}]<|/tool_call|>`,
    { calls: [weather, now] },
  ],
  "in words": [`functools[${named("get_weather", bern)}]`, { calls: [weather] }],
  "a call with text": [
    `I look.<|tool_call|>[${named("get_weather", bern)}]<|/tool_call|>`,
    { text: "I look.", calls: [weather] },
  ],
  "thoughts and a call": [
    `<think>Bern.</think><|tool_call|>[${named("get_weather", bern)}]<|/tool_call|>`,
    { reasoning: "Bern.", calls: [weather] },
  ],
  "a broken call": ["<|tool_call|>[oh]<|/tool_call|>", { text: "<|tool_call|>[oh]<|/tool_call|>", calls: [] }],
  "a module's name": ["import functools as f", { text: "import functools as f", calls: [] }],
});

const granite = family("granite", {
  "a call": [`<|tool_call|>[${named("get_weather", bern)}]`, { calls: [weather] }],
  "several calls": [`<|tool_call|>[${named("get_weather", bern)}, ${named("now", "{}")}]`, { calls: [weather, now] }],
  blocks: [`${block("get_weather", bern)}\n${block("now", "{}")}`, { calls: [weather, now] }],
  "a call with text": [`I look.\n${block("get_weather", bern)}`, { text: "I look.", calls: [weather] }],
  "thoughts and a call": [
    `<think>Bern.</think><|tool_call|>[${named("get_weather", bern)}]`,
    { reasoning: "Bern.", calls: [weather] },
  ],
  "thoughts and a response": [
    "<think>Two.</think><response>It is 2.</response>",
    { reasoning: "Two.", text: "It is 2." },
  ],
  "a broken call": ["<|tool_call|>none", { text: "<|tool_call|>none", calls: [] }],
});

const [calls, callsEnd, call, sep, callEnd] = [
  "<｜tool▁calls▁begin｜>",
  "<｜tool▁calls▁end｜>",
  "<｜tool▁call▁begin｜>",
  "<｜tool▁sep｜>",
  "<｜tool▁call▁end｜>",
];
const old = (name: string, given: string): string =>
  `${call}function${sep}${name}\n\`\`\`json\n${given}\n\`\`\`${callEnd}`;
const fresh = (name: string, given: string): string => `${call}${name}${sep}${given}${callEnd}`;
const deepseek = family("deepseek", {
  "a call of V3": [`${calls}${old("get_weather", bern)}${callsEnd}`, { calls: [weather] }],
  "a call of V3.1": [`${calls}${fresh("get_weather", bern)}${callsEnd}`, { calls: [weather] }],
  "several calls of V3": [
    `${calls}${old("get_weather", bern)}\n${old("now", "{}")}${callsEnd}`,
    { calls: [weather, now] },
  ],
  "several calls of V3.1": [
    `${calls}${fresh("get_weather", bern)}${fresh("now", "{}")}${callsEnd}`,
    { calls: [weather, now] },
  ],
  "a call with text": [
    `I look.\n${calls}${fresh("get_weather", bern)}${callsEnd}`,
    { text: "I look.", calls: [weather] },
  ],
  "thoughts and a call": [
    `Bern.\n</think>\n\n${calls}${old("get_weather", bern)}${callsEnd}`,
    { reasoning: "Bern.", text: "", calls: [weather] },
    { isThinking: true },
  ],
  "calls of V3.2": [
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Bern</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    { calls: [weather, now] },
  ],
  "a broken call": [`${calls}${call}nothing`, { text: `${calls}${call}nothing`, calls: [] }],
  "a call that was cut": [`${calls}${call}now${sep}{"x`, { calls: [["now", '{"x', false]] }],
});

const lfm = family("lfm2", {
  "a call": ['<|tool_call_start|>[get_weather(city="Bern", days=3)]<|tool_call_end|>', { calls: [weather] }],
  "several calls": [
    '<|tool_call_start|>[get_weather(city="Bern", days=3), now()]<|tool_call_end|>',
    { calls: [weather, now] },
  ],
  "a call with text": [
    'I look.<|tool_call_start|>[get_weather(city="Bern", days=3)]<|tool_call_end|>There.',
    { text: "I look.There.", calls: [weather] },
  ],
  "thoughts and a call": [
    '<think>Bern.</think><|tool_call_start|>[get_weather(city="Bern", days=3)]<|tool_call_end|>',
    { reasoning: "Bern.", calls: [weather] },
  ],
  "what Python has": [
    `<|tool_call_start|>[search(query='it\\'s "so"\\n', filter={"a": True, 'b': [None, -1.5e3, ()]})]<|tool_call_end|>`,
    { calls: [["search", '{"query": "it\'s \\"so\\"\\n", "filter": {"a": true, "b": [null, -1.5e3, []]}}', true]] },
  ],
  JSON: [`<|tool_call_start|>[${named("get_weather", bern)}]<|tool_call_end|>`, { calls: [weather] }],
  "a broken call": [
    "<|tool_call_start|>[1 + 1]<|tool_call_end|>",
    { text: "<|tool_call_start|>[1 + 1]<|tool_call_end|>", calls: [] },
  ],
  "a call that was cut": ['<|tool_call_start|>[search(query="ab', { calls: [["search", '{"query": "ab', false]] }],
});

const harmony = family("harmony", {
  "a call": [
    `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${bern}<|call|>`,
    { calls: [weather] },
  ],
  "the recipient in the role": [
    ` to=functions.get_weather<|channel|>commentary json<|message|>${bern}`,
    { calls: [weather] },
  ],
  "several calls": [
    `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${bern}<|call|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>`,
    { calls: [weather, now] },
  ],
  "a call with text": [
    `<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${bern}`,
    { text: "I look it up.", calls: [weather] },
  ],
  "thoughts and a call": [
    `<|channel|>analysis<|message|>Bern.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${bern}`,
    { reasoning: "Bern.", calls: [weather] },
  ],
  "thoughts and an answer": [
    "<|channel|>analysis<|message|>1 + 1.<|end|><|start|>assistant<|channel|>final<|message|>It is 2.<|return|>",
    { reasoning: "1 + 1.", text: "It is 2." },
  ],
  "no channel": ["It is 2.", { text: "It is 2." }],
  "a broken call": [
    "<|channel|>commentary to=functions.now",
    { text: "<|channel|>commentary to=functions.now", calls: [] },
  ],
  "a call that was cut": ['<|channel|>commentary to=functions.now<|message|>{"x', { calls: [["now", '{"x', false]] }],
});

/** All of them. */
export const transcripts: readonly Transcript[] = [
  ...hermes,
  ...qwenCoder,
  ...glm,
  ...llama,
  ...mistral,
  ...functionGemma,
  ...gemma,
  ...phi,
  ...granite,
  ...deepseek,
  ...lfm,
  ...harmony,
];
