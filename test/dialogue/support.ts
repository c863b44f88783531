// What the tests of dialogues share: replies read whole and in pieces, as what they became.
import fc from "fast-check";
import { expect } from "vitest";
import type { DialogueEvent } from "../../packages/dialogue/events.js";
import { familyOf } from "../../packages/dialogue/families.js";
import type { ThinkingMarks, ToolSpec } from "../../packages/dialogue/family.js";
import { ReplyReader } from "../../packages/dialogue/reader.js";
import { soak } from "../support/soak.js";

/** What a reply became. */
export interface Became {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly (readonly [name: string, given: string, isDone: boolean])[];
}

const tool = (name: string, properties: Readonly<Record<string, object>>): ToolSpec => ({
  name,
  parameters: { type: "object", properties, required: Object.keys(properties).slice(0, 1) },
});

/** The tools of the transcripts. */
export const tools: readonly ToolSpec[] = [
  tool("get_weather", {
    city: { type: "string" },
    days: { type: "integer" },
    exact: { type: "boolean" },
    hours: { type: "array", items: { type: "integer" } },
  }),
  tool("search", { query: { type: "string" }, filter: { type: "object" } }),
  tool("now", {}),
];

/** Marks that most thinking families have. */
export const think: ThinkingMarks = { begin: "<think>", end: "</think>" };

/** How a reply is read. */
export interface ReadOptions {
  readonly isThinking?: boolean;
  readonly thinking?: ThinkingMarks | undefined;
  readonly tools?: readonly ToolSpec[] | undefined;
}

/** The events of a reply that comes in these pieces. */
export function eventsOf(family: string, pieces: readonly string[], options: ReadOptions = {}): DialogueEvent[] {
  const found = familyOf(undefined, family)!;
  const reader = new ReplyReader({
    family: found,
    thinking: found.thinking ?? ("thinking" in options ? options.thinking : think),
    isThinking: options.isThinking === true,
    tools: "tools" in options ? options.tools : tools,
  });
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()];
}

/** What events come to. */
export function became(events: readonly DialogueEvent[]): Became {
  const calls: [string, string, boolean][] = [];
  let [text, reasoning] = ["", ""];
  for (const event of events) {
    if (event.kind === "text") text += event.text;
    else if (event.kind === "reasoning") reasoning += event.text;
    else if (event.kind === "call") calls[event.call] = [event.name, "", false];
    else if (event.kind === "arguments") calls[event.call][1] += event.text;
    else calls[event.call][2] = true;
  }
  return { text, reasoning, calls };
}

/** Reads a reply whole, and checks that pieces of any size come to the same. */
export function readAnyhow(family: string, reply: string, options: ReadOptions = {}, runs = 40): Became {
  const whole = became(eventsOf(family, [reply], options));
  expect(became(eventsOf(family, reply.split(""), options))).toEqual(whole);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat({ max: reply.length }), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.toSorted((a, b) => a - b), reply.length];
      const pieces = at.slice(1).map((end, index) => reply.slice(at[index], end));
      expect(became(eventsOf(family, pieces, options))).toEqual(whole);
    }),
    { numRuns: soak ? 2000 : runs },
  );
  return whole;
}
