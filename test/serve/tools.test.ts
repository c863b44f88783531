// Calls of tools: found in texts however they are cut into pieces, in the ways that published models write them.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Ending } from "../../src/engine/ending.js";
import { readSampling } from "../../src/engine/sampling.js";
import { TextTokenizer } from "../../src/generate/tokenizer.js";
import type { Engine, TextListener } from "../../src/serve/engine.js";
import { TextGroup } from "../../src/serve/text-group.js";
import { addEvent, emptyText, type TextEvent, type WholeText } from "../../src/serve/wire/text-event.js";
import { type CallMarks, CallReader } from "../../src/serve/wire/tools/call-reader.js";
import { toolStyleOf } from "../../src/serve/wire/tools/tool-style.js";
import { templateStyles } from "../generate/template-styles.js";

const hermes: CallMarks = { begin: "<tool_call>", end: "</tool_call>", bare: false };
const mistral: CallMarks = { begin: "[TOOL_CALLS]", end: "", bare: false };
const llama: CallMarks = { begin: "<|python_tag|>", end: "", bare: true };

type Read = Pick<WholeText, "content"> & { readonly calls: readonly (readonly [string, string])[] };

/** What a text is, read in these pieces. */
function read(marks: CallMarks, pieces: readonly string[]): Read & { readonly events: readonly TextEvent[] } {
  const reader = new CallReader(marks);
  const events = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()];
  const whole = emptyText();
  for (const event of events) addEvent(whole, event);
  return { content: whole.content, calls: whole.calls.map(({ name, arguments: given }) => [name, given]), events };
}

const call = (name: string, given: string): string => `{"name": "${name}", "arguments": ${given}}`;

const texts: readonly (readonly [what: string, marks: CallMarks, text: string, wanted: Read])[] = [
  ["text alone", hermes, "All is well.\n\nReally < fine", { content: "All is well.\n\nReally < fine", calls: [] }],
  [
    "text and a call",
    hermes,
    `I look.\n<tool_call>\n${call("f", '{"a": "}\\"{", "b": [1, {"c": null}]}')}\n</tool_call>`,
    { content: "I look.", calls: [["f", '{"a": "}\\"{", "b": [1, {"c": null}]}']] },
  ],
  [
    "two calls and a closing word",
    hermes,
    `<tool_call>\n${call("f", "{}")}\n</tool_call>\n<tool_call>${call("g", '{"x":1}')}</tool_call>\nDone.`,
    {
      content: "Done.",
      calls: [
        ["f", "{}"],
        ["g", '{"x":1}'],
      ],
    },
  ],
  [
    "arguments first, arguments as text, and none",
    hermes,
    '<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call><tool_call>{"name":"g","arguments":"{\\"y\\":2}"}</tool_call><tool_call>{"name": "h"}</tool_call>',
    {
      content: "",
      calls: [
        ["f", '{"x": 1}'],
        ["g", '{"y":2}'],
        ["h", "{}"],
      ],
    },
  ],
  [
    "what is no call stays text",
    hermes,
    "<tool_call>\nnot json</tool_call> and on",
    { content: "not json</tool_call> and on", calls: [] },
  ],
  [
    "a call that was cut",
    hermes,
    '<tool_call>{"name": "f", "arguments": {"x": ',
    { content: "", calls: [["f", '{"x": ']] },
  ],
  [
    "a list",
    mistral,
    `[TOOL_CALLS] [${call("f", '{"x": 1}')}, ${call("g", "{}")}]`,
    {
      content: "",
      calls: [
        ["f", '{"x": 1}'],
        ["g", "{}"],
      ],
    },
  ],
  [
    "names and arguments",
    mistral,
    'Well.[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g{"y": [2]}',
    {
      content: "Well.",
      calls: [
        ["f", '{"x": 1}'],
        ["g", '{"y": [2]}'],
      ],
    },
  ],
  ["a bare object", llama, '{"name": "f", "parameters": {"x": 1}}', { content: "", calls: [["f", '{"x": 1}']] }],
  [
    "after a mark, two of them",
    llama,
    '<|python_tag|>{"name": "f", "parameters": {"x": 1}}; {"name": "g", "parameters": {}}',
    {
      content: "",
      calls: [
        ["f", '{"x": 1}'],
        ["g", "{}"],
      ],
    },
  ],
  ["an object that is no call", llama, '{"answer": 42}', { content: '{"answer": 42}', calls: [] }],
  ["braces within text", llama, 'It is {"name": "f"}.', { content: 'It is {"name": "f"}.', calls: [] }],
];

describe("a text in pieces", () => {
  test.each(texts)("%s", (_, marks, text, wanted) => {
    const { events: _events, ...whole } = read(marks, [text]);
    expect(whole).toEqual(wanted);
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat({ max: text.length }), { maxLength: 12 }), (cuts) => {
        const at = [0, ...cuts.toSorted((a, b) => a - b), text.length];
        const pieces = at.slice(1).map((end, index) => text.slice(at[index], end));
        const { events: _again, ...again } = read(marks, pieces);
        expect(again).toEqual(wanted);
      }),
      { numRuns: 60 },
    );
  });

  test("arguments come as they are made, and nothing of a mark is ever content", () => {
    const text = `Hm.\n<tool_call>\n${call("f", '{"city": "Bern", "days": 3}')}\n</tool_call>`;
    const { events } = read(hermes, Array.from(text));
    expect(events.filter(({ kind }) => kind === "arguments").length).toBeGreaterThan(20);
    expect(events.flatMap((event) => (event.kind === "content" ? [event.text] : [])).join("")).toBe("Hm.");
  });
});

test("control tokens that stand before calls are seen, though they are no text", () => {
  const spelled = ["Well", ".", "", '[{"name": "f", ', '"arguments": {}}]', "STOP"];
  let listener: TextListener | undefined;
  let ending: Ending | undefined;
  const engine: Engine = {
    context: 64,
    vocabulary: spelled.length,
    submit(request, given) {
      listener = given;
      ending = new Ending(request);
      return { cancel: () => {} };
    },
    figures: () => {
      throw new Error("nobody asks");
    },
    drain: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const heard: TextEvent[] = [];
  const sampling = readSampling({});
  const ends = { stop: ["STOP"], minTokens: 0, stopsFrom: 0, endTokens: new Set<number>() };
  const ask = { prompt: [0], maxTokens: 9, sampling, ...ends, calls: mistral };
  const watch = { first() {}, next() {}, ended() {} };
  const decode = (tokens: readonly number[]): string => tokens.map((token) => spelled[token]).join("");
  const markers = new Map([[2, "[TOOL_CALLS]"]]);
  void new TextGroup(
    [ask],
    { id: "a", tenant: "b", priority: 0 },
    { engine, decoder: { decode }, watch: () => watch, markers },
    {
      event: (_, event) => heard.push(event),
      done: () => {},
      failed: () => {},
    },
  );
  for (const token of [0, 1, 2, 3, 4, 5]) {
    const { text, end } = ending!.push(token, false, false);
    expect(end).toBe(token === 5 ? "stopped" : undefined);
    listener!.token({ token, text });
  }
  listener!.ended("stopped");
  expect(heard).toMatchObject([
    { kind: "content", text: "Well" },
    { kind: "content", text: "." },
    { kind: "call", name: "f" },
    { kind: "arguments", text: "{}" },
    { kind: "finish", reason: "tool_calls" },
  ]);
});

test("a template's own way of writing calls is found", async () => {
  const found: Record<string, string | undefined> = {};
  for (const [name, { template, special }] of Object.entries(templateStyles)) {
    const vocab = Object.fromEntries(Array.from({ length: 256 }, (_, code) => [String.fromCharCode(code), code]));
    const added = special.map((content, at) => ({ id: 256 + at, content, special: true }));
    const tokenizer = await TextTokenizer.load({
      tokenizer: { model: { type: "BPE", vocab, merges: [] }, added_tokens: added },
      config: { bos_token: special[0] ?? "", eos_token: special[1] ?? "" },
      template,
    });
    found[name] = toolStyleOf(tokenizer)?.name;
  }
  // The others say nothing of tools, or write calls in a way of their own.
  expect(Object.fromEntries(Object.entries(found).filter(([, style]) => style !== undefined))).toEqual({
    "Llama 3.1": "llama3",
    "Qwen 2.5": "hermes",
    Mistral: "mistral",
    Hermes: "hermes",
  });
});
