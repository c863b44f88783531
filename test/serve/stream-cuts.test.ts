// Streams of Anthropic's and Ollama's doors, of replies that come in any pieces and whose bytes are cut anywhere: official clients put them together
// to what the whole answer is.
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import { Ollama } from "ollama";
import { describe, expect, test } from "vitest";
import { AnthropicAnswer } from "../../packages/serve/wire/anthropic-answer.js";
import type { Answer } from "../../packages/serve/wire/answer.js";
import { OllamaAnswer } from "../../packages/serve/wire/ollama-answer.js";
import type { TextEvent } from "../../packages/serve/wire/text-event.js";
import { eventsOf as dialogueEvents } from "../dialogue/support.js";
import { soak } from "../support/soak.js";

const model = "scripted";
const messages = [{ role: "user" as const, content: "How is it?" }];

describe("streams that are cut anywhere come to the whole", () => {
  const block = (city: string): string =>
    `<tool_call>\n{"name": "get_weather", "arguments": {"city": ${JSON.stringify(city)}, "days": 3}}\n</tool_call>`;
  const pieces = (text: string, cuts: readonly number[]): string[] => {
    const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).toSorted((a, b) => a - b), text.length];
    return at.slice(1).map((end, index) => text.slice(at[index], end));
  };
  /** The answer to a reply that came in pieces, as a stream whose bytes come in pieces; and what it is as a whole. */
  const answered = (
    answer: Answer,
    reply: readonly string[],
    cuts: readonly number[],
  ): readonly [typeof fetch, object] => {
    const told: TextEvent[] = dialogueEvents("hermes", reply, { isThinking: true }).flatMap((event): TextEvent[] => {
      if (event.kind === "text") return [{ kind: "content", text: event.text, tokens: [] }];
      if (event.kind === "call") return [{ ...event, id: `call_${event.call}` }];
      return event.kind === "call-done" ? [] : [event];
    });
    const usage = { promptTokens: 9, cachedTokens: 4, completionTokens: 7, reasoningTokens: 2 };
    const events = [
      ...answer.begin(),
      ...[...told, { kind: "finish", reason: "tool_calls" } as const].flatMap((event) => answer.event(0, event)),
      ...answer.end(usage),
    ];
    const written = new TextEncoder().encode(events.map((event) => answer.form!.written(event)).join(""));
    const ends = [...cuts.map((cut) => cut % written.length).toSorted((a, b) => a - b), written.length];
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        ends.reduce((from, end) => (controller.enqueue(written.slice(from, end)), end), 0);
        controller.close();
      },
    });
    const headers = { "content-type": answer.form!.contentType };
    return [() => Promise.resolve(new Response(stream, { headers })), answer.body(usage)];
  };
  const given = fc.tuple(
    fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 3 }),
    fc.array(fc.nat(), { maxLength: 12 }),
    fc.array(fc.nat(), { maxLength: 12 }),
  );
  const replyOf = (cities: readonly string[]): string => `So — 晴れ.</think>I look.\n${cities.map(block).join("\n")}`;
  const numRuns = soak ? 2000 : 60;

  test("Anthropic's", async () => {
    await fc.assert(
      fc.asyncProperty(given, async ([cities, cuts, byteCuts]) => {
        const [fetching, whole] = answered(
          new AnthropicAnswer(model, 9, { stop: [], omitsThoughts: false }),
          pieces(replyOf(cities), cuts),
          byteCuts,
        );
        const client = new Anthropic({ apiKey: "none", fetch: fetching });
        const { content, stop_reason, usage } = await client.messages
          .stream({ model, messages, max_tokens: 9 })
          .finalMessage();
        expect(content).toEqual((whole as Anthropic.Message).content);
        expect(content).toMatchObject([
          { thinking: "So — 晴れ." },
          { text: "I look." },
          ...cities.map((city) => ({ type: "tool_use", input: { city, days: 3 } })),
        ]);
        expect([stop_reason, usage]).toMatchObject([
          "tool_use",
          { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 7 },
        ]);
      }),
      { numRuns },
    );
  });

  test("Ollama's", async () => {
    await fc.assert(
      fc.asyncProperty(given, async ([cities, cuts, byteCuts]) => {
        const answer = new OllamaAnswer("chat", model, { spells: undefined, nothing: undefined });
        const [fetching, whole] = answered(answer, pieces(replyOf(cities), cuts), byteCuts);
        const all = { role: "assistant", content: "", thinking: "", tool_calls: [] as object[] };
        for await (const { message } of await new Ollama({ fetch: fetching }).chat({ model, messages, stream: true })) {
          all.content += message.content;
          all.thinking += message.thinking ?? "";
          all.tool_calls.push(...(message.tool_calls ?? []));
        }
        expect(all).toEqual((whole as { message: object }).message);
        expect(all.tool_calls).toMatchObject(cities.map((city) => ({ function: { arguments: { city, days: 3 } } })));
      }),
      { numRuns },
    );
  });
});
