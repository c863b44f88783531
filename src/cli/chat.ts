/** `insitu chat`: a conversation of several turns on one state. Lines come from a terminal or from a pipe. */
import { createInterface } from "node:readline";
import { InsituError } from "../base/error.js";
import type { Chat } from "../generate/chat.js";
import type { Command } from "./command.js";
import { finish } from "./generate.js";
import { generateOptions, loadModel, textOptions } from "./language-model.js";
import { summaryText } from "./summary.js";

const help = [
  "/back [n]   takes back the last n turns (1)",
  "/quit       ends the conversation, as the end of the input does; Ctrl-C ends an answer",
].join("\n");

/** Talks with a model; each turn reads only what is new. */
export const chat: Command = {
  name: "chat",
  positionals: "",
  arity: [0, 0],
  summary: "a conversation of several turns; each turn reads only what is new",
  options: {
    ...textOptions,
    system: { value: "text", describes: "what the model is told before the conversation" },
    quiet: { describes: "no summaries" },
  },
  async run({ options }) {
    const lm = await loadModel(options);
    const { system } = options;
    const opening = typeof system === "string" ? [{ role: "system", content: system }] : [];
    const conversation = lm.chat(opening, { whenFull: "slide", ...generateOptions(options) });
    const terminal = process.stdin.isTTY && process.stdout.isTTY;
    const lines = createInterface({ input: process.stdin, output: process.stdout, terminal, prompt: "> " });
    const quiet = options["quiet"] === true;
    try {
      if (terminal) console.log(`${help}\n`);
      if (terminal) lines.prompt();
      for await (const line of lines) {
        if (line.trim() === "/quit") break;
        if (line.startsWith("/")) console.log(obey(line, conversation));
        else if (line.trim() !== "")
          await answer(conversation, line, quiet, (listener) => lines.once("SIGINT", listener));
        if (terminal) lines.prompt();
      }
      return 0;
    } finally {
      lines.close();
      await lm.release();
    }
  },
};

async function answer(
  conversation: Chat,
  line: string,
  quiet: boolean,
  onInterrupt: (listener: () => void) => unknown,
): Promise<void> {
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  onInterrupt(interrupt);
  process.once("SIGINT", interrupt);
  try {
    const reply = conversation.send(line, { signal: stop.signal });
    await finish(reply, stop.signal, (text) => process.stdout.write(text));
    process.stdout.write(quiet ? "\n\n" : `\n${summaryText(reply.summary)}\n\n`);
  } finally {
    process.off("SIGINT", interrupt);
  }
}

function obey(line: string, conversation: Chat): string {
  const [, count] = /^\/back(?:\s+(\d+))?\s*$/.exec(line) ?? [undefined, undefined];
  if (!line.startsWith("/back")) return help;
  try {
    conversation.rewind(conversation.turns - Number(count ?? 1));
    return `${conversation.turns} turns are left\n`;
  } catch (error) {
    if (error instanceof InsituError) return error.message;
    throw error;
  }
}
