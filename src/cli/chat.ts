/** `insitu chat`: a conversation of several turns on one state. Lines come from a terminal or from a pipe. */
import { createInterface } from "node:readline";
import { InsituError } from "../base/error.js";
import type { Chat } from "../generate/chat.js";
import type { Command } from "./command.js";
import { finish } from "./generate.js";
import { Interrupt, interruptedCode } from "./interrupt.js";
import { generateOptions, loadModel, pageOptions, textOptions, withModel } from "./language-model.js";
import { decodeUtf8 } from "./standard-input.js";
import { printSummary } from "./summary.js";
import { textOutput } from "./word-wrap.js";

const help = [
  "/back [n]   takes back the last n turns (1)",
  "/quit       ends the conversation, as the end of the input does; Ctrl-C ends an answer",
].join("\n");

/** Talks with a model; each turn reads only what is new. */
export const chat: Command = {
  name: "chat",
  positionals: "[model]",
  arity: [0, 1],
  summary: "a conversation of several turns with a model, such as qwen3-0.6b; each turn reads only what is new",
  options: {
    ...textOptions,
    ...pageOptions,
    system: { value: "text", describes: "what the model is told before the conversation" },
    quiet: { describes: "no summaries" },
  },
  async run(args) {
    const options = withModel(args);
    const wanted = { whenFull: "slide", ...generateOptions(options) } as const;
    const interrupt = new Interrupt();
    const lm = await interrupt.during(loadModel(options, interrupt.signal));
    interrupt.forget();
    const { system } = options;
    const opening = typeof system === "string" ? [{ role: "system", content: system }] : [];
    const conversation = lm.chat(opening, wanted);
    const terminal = process.stdin.isTTY && process.stdout.isTTY;
    // Bytes of a pipe are checked line by line: what is not UTF-8 must not become something else.
    if (!terminal) process.stdin.setEncoding("latin1");
    const lines = createInterface({ input: process.stdin, output: process.stdout, terminal, prompt: "> " });
    const quiet = options["quiet"] === true;
    // At a terminal Ctrl-C ends an answer, or, between answers, the conversation; elsewhere always the conversation.
    let [answering, interrupted]: [AbortController | undefined, boolean] = [undefined, false];
    const onInterrupt = (): void => {
      interrupted ||= !terminal || answering === undefined;
      answering?.abort();
      if (interrupted) lines.close();
    };
    lines.on("SIGINT", onInterrupt);
    process.on("SIGINT", onInterrupt);
    try {
      if (terminal) console.log(`${help}\n`);
      if (terminal) lines.prompt();
      for await (const given of lines) {
        const line = terminal ? given : decodeUtf8(Buffer.from(given, "latin1"), "a line");
        if (interrupted || line.trim() === "/quit") break;
        if (line.startsWith("/")) console.log(obey(line, conversation));
        else if (line.trim() !== "") {
          answering = new AbortController();
          await answer(conversation, line, quiet, answering.signal).catch((error: unknown) => {
            // At a terminal the conversation goes on after a turn that was refused.
            if (!terminal || !(error instanceof InsituError)) throw error;
            console.error(`insitu: ${error.message}`);
          });
          answering = undefined;
        }
        if (interrupted) break;
        if (terminal) lines.prompt();
      }
      return interrupted ? interruptedCode : 0;
    } finally {
      process.off("SIGINT", onInterrupt);
      lines.close();
      await lm.release();
    }
  },
};

async function answer(conversation: Chat, line: string, quiet: boolean, signal: AbortSignal): Promise<void> {
  const reply = conversation.send(line, { signal });
  const output = textOutput();
  await finish(reply, signal, (text) => output.write(text));
  output.end();
  process.stdout.write("\n");
  if (!quiet) printSummary(reply.summary);
  process.stdout.write("\n");
}

function obey(line: string, conversation: Chat): string {
  const [, count] = /^\/back(?:\s+(\d+))?\s*$/.exec(line) ?? [undefined, undefined];
  if (!line.startsWith("/back")) return help;
  try {
    conversation.rewindTo(conversation.turns - Number(count ?? 1));
    return `${conversation.turns} turns are left\n`;
  } catch (error) {
    if (error instanceof InsituError) return error.message;
    throw error;
  }
}
