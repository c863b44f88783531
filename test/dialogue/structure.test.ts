// What forces a call: for each family the embedded model's texts, kept to its structure, are read as calls that obey their schemas by ajv.
import { Ajv } from "ajv";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Dialogue } from "../../packages/dialogue/dialogue.js";
import { familyNames, familyOf } from "../../packages/dialogue/families.js";
import type { ToolSpec } from "../../packages/dialogue/family.js";
import { CausalLM } from "../../src/entry/node.js";
import { became } from "./support.js";
import { soak } from "../support/soak.js";

const tools: readonly ToolSpec[] = [
  {
    name: "get_weather",
    strict: true,
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", enum: ["Bern", "New York"] },
        days: { type: "integer", minimum: 1, maximum: 9 },
        exact: { type: "boolean" },
        hours: { type: "array", items: { enum: [1, 2] }, maxItems: 2 },
      },
      required: ["days", "city"],
      additionalProperties: false,
    },
  },
  {
    name: "move",
    strict: true,
    parameters: {
      type: "object",
      properties: {
        how: { $ref: "#/$defs/way" },
        to: { $ref: "#/$defs/place" },
        fast: { enum: ["yes", "no"] },
        why: { anyOf: [{ const: "fun" }, { type: "null" }] },
        again: { allOf: [{ $ref: "#/$defs/way" }] },
      },
      required: ["how", "again"],
      additionalProperties: false,
      $defs: {
        way: { type: "string", enum: ["on foot", "by boat"] },
        place: { type: "object", properties: { x: { enum: [1, 2] } }, required: ["x"], additionalProperties: false },
      },
    },
  },
];

const ajv = new Ajv();
const valid = new Map(tools.map(({ name, parameters }) => [name, ajv.compile(parameters as object)]));

/** Forms that depend on the template: what stands in it. */
const sources: Readonly<Record<string, readonly string[]>> = {
  mistral: ["[TOOL_CALLS]", "[TOOL_CALLS][ARGS]"],
  granite: ["<|tool_call|>", "<tool_call>"],
  deepseek: [
    "<｜tool▁calls▁begin｜>",
    "```json",
    readFileSync(new URL("templates/deepseek-ai-DeepSeek-V3.2.jinja", import.meta.url), "utf8"),
  ],
};
const cases = familyNames.flatMap((family) =>
  (sources[family] ?? [""]).map((source, at) => [family, at, source] as const),
);

function dialogueOf(family: string | undefined, source: string): Dialogue {
  const template = { source, hasToken: () => false, render: () => "" };
  return new Dialogue(template, familyOf(template, family));
}

let lm: CausalLM;
beforeAll(async () => {
  lm = await CausalLM.load(undefined, { threads: 1 });
});
afterAll(() => lm.release());

const rounds = soak ? 40 : 2;

/** A text of the model that obeys a rule. */
async function made(
  rule: ReturnType<Dialogue["rule"]>,
  seed: number,
): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const constraint = await lm.constrain(rule!);
  const generation = lm.generate("Once upon a time", { constraint, seed, temperature: 1, maxTokens: 300 });
  const text = await generation.text();
  constraint.release();
  return { text, isWhole: generation.summary.finishReason === "end" };
}

describe.each(cases)("%s, form %i", (family, _, source) => {
  const dialogue = dialogueOf(family, source);
  const wish = { tools, parallel: false, format: undefined, thoughts: "closed" } as const;
  const read = (text: string) => {
    const reader = dialogue.reader("closed", tools);
    return became([...reader.push(text), ...reader.end()]);
  };

  /** The last call that was forced to its end. */
  let last = "";
  test("a forced call is one, and obeys its schema", async () => {
    for (let seed = 0; seed < rounds && (last === "" || rounds > 2); seed++) {
      const { text, isWhole } = await made(dialogue.rule({ ...wish, choice: "required" }), seed);
      const { calls, text: beside } = read(text);
      expect([text, calls.length]).toEqual([text, 1]);
      if (!isWhole) continue;
      expect([text, beside.trim()]).toEqual([text, ""]);
      last = text;
      const [name, given, isDone] = calls[0];
      expect([text, isDone, valid.get(name)!(JSON.parse(given))]).toEqual([text, true, true]);
    }
    expect(last).not.toBe("");
    const named = await lm.constrain(dialogue.rule({ ...wish, choice: { name: "move" } })!);
    expect(named.allows!(last)).toBe(read(last).calls[0][0] === "move");
    named.release();
  });

  test("strict arguments with free text before, a call or JSON, thoughts first", async () => {
    const { trigger, prefix = "" } = dialogue.family!.structure(tools, false, { source, hasToken: () => false });
    const free = await lm.constrain(dialogue.rule({ ...wish, choice: "auto" })!);
    expect(free.allows!("Just text.")).toBe(true);
    expect(free.allows!(last)).toBe(true);
    if (trigger !== "") expect(free.allows!(`I look. ${last}`)).toBe(true);
    expect(free.allows!(`${prefix}${trigger === "" ? "{" : trigger}no such call`)).toBe(false);
    free.release();
    const format = { kind: "schema", schema: { const: "so" } } as const;
    const either = await lm.constrain(dialogue.rule({ ...wish, choice: "auto", format })!);
    expect(either.allows!(last)).toBe(true);
    const answer = family === "harmony" ? '<|channel|>final<|message|>"so"' : '"so"';
    expect([either.allows!(answer), either.allows!("Just text.")]).toEqual([true, false]);
    either.release();
  });
});

test("thoughts come first where the prompt opened them, and may where it is left to the model", async () => {
  const dialogue = dialogueOf(undefined, "<tool_call> <think></think>");
  const format = { kind: "schema", schema: { const: 1 } } as const;
  const wish = { tools: [], choice: "none", parallel: true, format } as const;
  const allows = async (thoughts: "open" | "free" | "closed", texts: readonly string[]): Promise<boolean[]> => {
    const held = await lm.constrain(dialogue.rule({ ...wish, thoughts })!);
    const found = texts.map((text) => held.allows!(text));
    held.release();
    return found;
  };
  const texts = ["1", "hm</think>\n\n1", "<think>hm</think>1"];
  expect(await allows("open", texts)).toEqual([false, true, true]);
  expect(await allows("free", texts)).toEqual([true, false, true]);
  expect(await allows("closed", texts)).toEqual([true, false, false]);
});

test("what cannot be forced is refused with the function and the parameter", () => {
  const bad: ToolSpec = {
    name: "f",
    strict: true,
    parameters: { type: "object", properties: { id: { type: "string", pattern: "^a" } } },
  };
  const rule = (tool: ToolSpec) => () =>
    dialogueOf("glm", "").rule({
      tools: [tool],
      choice: "required",
      parallel: true,
      format: undefined,
      thoughts: "closed",
    });
  expect(rule(bad)).toThrow(/"f": pattern of the parameter "id"/);
  const indirect = { type: "object", properties: { id: { type: ["string"], maxLength: 3 } } };
  expect(rule({ ...bad, parameters: indirect })).toThrow(/"f": maxLength of the parameter "id"/);
  expect(rule({ ...bad, parameters: { anyOf: [] } })).toThrow(/"f": its parameters must be an object/);
  expect(() => dialogueOf("none", "")).toThrow(/toolFormat must be one of "harmony"/);
});
