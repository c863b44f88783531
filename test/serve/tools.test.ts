// Calls of tools in the texts of a request: control tokens that stand before them are seen, though they are no text.
import { expect, test } from "vitest";
import { Dialogue } from "../../packages/dialogue/dialogue.js";
import { familyOf } from "../../packages/dialogue/families.js";
import { Ending } from "../../src/engine/ending.js";
import { readSampling } from "../../packages/choice/sampling.js";
import type { Engine, TextListener } from "../../packages/serve/engine.js";
import { TextGroup } from "../../packages/serve/text-group.js";
import type { TextEvent } from "../../packages/serve/wire/text-event.js";

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
  const ask = {
    prompt: [0],
    maxTokens: 9,
    sampling,
    ...ends,
    reader: () => new Dialogue(undefined, familyOf(undefined, "mistral")).reader("closed", []),
  };
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
