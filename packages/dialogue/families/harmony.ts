/**
 * gpt-oss, Harmony: messages in channels. `<|channel|>analysis<|message|>` are thoughts, "final" is the answer, and a message with a recipient,
 * `to=functions.name`, is a call whose arguments are the message.
 */
import type { Family } from "../family.js";
import type { Reading, Steps } from "../reading.js";
import { eachTool } from "../structure.js";

const [channel, message, start] = ["<|channel|>", "<|message|>", "<|start|>"];
const ends = ["<|end|>", "<|call|>", "<|return|>"];

/** Reads one message behind its header. */
function* body(header: string, reading: Reading, findsCalls: boolean, isNext: boolean): Steps<boolean> {
  const { telling } = reading;
  const [, recipient] = /\bto=([^\s<]+)/.exec(header) ?? [];
  const [, spoken] = /<\|channel\|>(\w+)/.exec(header) ?? [];
  if (recipient === undefined || !findsCalls) {
    const isThought = spoken === "analysis";
    // Two messages to the user are two paragraphs.
    if (!isThought && isNext) telling.text("\n\n");
    return (
      (yield* reading.until([...ends, start], (text) => (isThought ? telling.reasoning(text) : telling.text(text)))) !==
      undefined
    );
  }
  reading.begin(recipient.replace(/^functions\./, ""));
  let given = "";
  const end = yield* reading.until(ends, (text) => {
    given += text;
    telling.arguments(text);
  });
  if (end !== undefined && given.trim() === "") telling.arguments("{}");
  // The token that ends a call ends the reply, and is no text.
  if (end !== undefined || isObject(given)) reading.done();
  return end !== undefined;
}

function isObject(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

function* reply(reading: Reading, findsCalls: boolean): Steps<void> {
  const { telling } = reading;
  for (let isNext = false; ; isNext = true) {
    yield* reading.blanks();
    reading.open("");
    const begun = yield* reading.literal([`${start}assistant`, channel, "to="]);
    if (begun === undefined) {
      reading.fail();
      // A text without channels is an answer.
      if ((yield* reading.until([start, channel], (text) => telling.text(text))) === undefined) return;
    }
    const header = yield* reading.textUntil(message);
    if (header === undefined) return reading.fail();
    reading.drop();
    if (!(yield* body((begun ?? channel) + header, reading, findsCalls, isNext))) return;
  }
}

/** The family. */
export const harmony: Family = {
  name: "harmony",
  matches: ({ source }) => source.includes(channel) && source.includes(message),
  markers: [channel, message, start, "<|end|>", "<|constrain|>"],
  ends: ["<|call|>", "<|return|>"],
  thinking: { begin: `${channel}analysis${message}`, end: `<|end|>${start}assistant` },
  begins: [],
  *call() {},
  reply,
  structure: (tools) => ({
    prefix: `${channel}commentary `,
    trigger: "to=functions.",
    // A call ends the reply.
    rest: eachTool(tools, ({ name, parameters }) => [
      name,
      { choice: [` <|constrain|>json${message}`, `${channel}commentary json${message}`] },
      { schema: parameters },
    ]),
  }),
  answer: (part) => ({ sequence: [`${channel}final${message}`, part] }),
  write: (calls) =>
    calls
      .map(
        ({ name, arguments: given }) =>
          `${channel}commentary to=functions.${name} <|constrain|>json${message}${JSON.stringify(given)}<|call|>`,
      )
      .join(`${start}assistant`),
  reasoningField: "thinking",
};
