/** `insitu chat`: a conversation of several turns on one state. Lines come from a terminal or from a pipe. */
import { createInterface } from "node:readline";
import { InsituError } from "#insitu/base/error.js";
import type { CausalLM } from "#insitu/entry/node.js";
import type { Chat } from "#insitu/generate/chat.js";
import { ChatInput, keepHistory, readHistory } from "./chat-input.js";
import type { Command } from "./command.js";
import { finish } from "./generate.js";
import { Interrupt, interruptedCode } from "./interrupt.js";
import {
  generateOptions,
  loadDraft,
  loadModel,
  pageOptions,
  textOptions,
  withDraft,
  withModel,
} from "./language-model.js";
import { decodeUtf8 } from "./standard-input.js";
import { printSummary } from "./summary.js";
import { textOutput } from "./word-wrap.js";

const help = [
  "/undo [n]   takes back the last n turns (1)",
  "/clear      starts a new conversation",
  "/help       shows this",
  "/quit       ends the conversation, as Ctrl-D does; Ctrl-C ends an answer",
  'A line that ends with \\ goes on in the next one; """ begins and ends a message of several lines.',
].join("\n");

/** What a person sees first: the model, and what can be expected of it. */
function openingOf({ source, contextLength, session, tokenizer }: CausalLM): string {
  const facts = `${source}: context ${contextLength} tokens, backend ${session.backend}`;
  if (tokenizer.hasChatTemplate) return facts;
  return `${facts}\nIt has no chat template: it continues texts and does not answer questions. Give it a beginning, such as "Once upon a time".`;
}

/** Talks with a model; each turn reads only what is new. */
export const chat: Command = {
  name: "chat",
  positionals: "[model]",
  arity: [0, 1],
  summary: "chats with a model, such as qwen3-0.6b (default: the embedded one)",
  options: {
    ...textOptions,
    ...pageOptions,
    system: { value: "text", describes: "the system message" },
    quiet: { describes: "no summaries" },
  },
  async run(args) {
    const options = withModel(args);
    const wanted = { whenFull: "slide", ...generateOptions(options) } as const;
    const interrupt = new Interrupt();
    const lm = await interrupt.during(loadModel(options, interrupt.signal));
    const draft = await interrupt.during(loadDraft(options, lm, interrupt.signal));
    interrupt.forget();
    const { system } = options;
    const opening = typeof system === "string" ? [{ role: "system", content: system }] : [];
    const conversation = lm.chat(opening, withDraft(wanted, draft));
    const terminal = process.stdin.isTTY && process.stdout.isTTY;
    // Bytes of a pipe are checked line by line: what is not UTF-8 must not become something else.
    if (!terminal) process.stdin.setEncoding("latin1");
    const history = terminal ? { history: readHistory(), historySize: 500, removeHistoryDuplicates: true } : {};
    const input = { input: process.stdin, output: process.stdout, terminal, prompt: "> ", ...history };
    const lines = createInterface(input);
    lines.on("history", (typed) => keepHistory(typed));
    const typing = new ChatInput();
    const quiet = options["quiet"] === true;
    // At a terminal Ctrl-C ends an answer, or, between answers, the conversation; elsewhere always the conversation.
    let [answering, interrupted]: [AbortController | undefined, boolean] = [undefined, false];
    const onInterrupt = (): void => {
      // What was begun is taken back first.
      if (terminal && answering === undefined && (typing.drop() || lines.line !== "")) {
        process.stdout.write("\n");
        lines.write(null, { ctrl: true, name: "u" });
        return ask();
      }
      interrupted ||= !terminal || answering === undefined;
      answering?.abort();
      if (interrupted) lines.close();
    };
    const ask = (more = false): void => {
      lines.setPrompt(more ? "… " : "> ");
      if (terminal) lines.prompt();
    };
    lines.on("SIGINT", onInterrupt);
    process.on("SIGINT", onInterrupt);
    try {
      if (terminal) console.log(`${openingOf(lm)}\n${help}\n`);
      ask();
      for await (const given of lines) {
        const line = terminal ? given : decodeUtf8(Buffer.from(given, "latin1"), "a line");
        if (interrupted) break;
        const typed = typing.line(line);
        if (typed.kind === "command" && /^(quit|exit|q|bye)$/.test(typed.name)) break;
        if (typed.kind === "command") console.log(obey(typed.name, typed.rest, conversation));
        else if (typed.kind === "message") {
          answering = new AbortController();
          await answer(conversation, typed.text, quiet, answering.signal).catch((error: unknown) => {
            // At a terminal the conversation goes on after a turn that was refused.
            if (!terminal || !(error instanceof InsituError)) throw error;
            console.error(`insitu: ${error.message}`);
          });
          answering = undefined;
        }
        if (interrupted) break;
        ask(typed.kind === "more");
      }
      return interrupted ? interruptedCode : 0;
    } finally {
      process.off("SIGINT", onInterrupt);
      lines.close();
      await lm.release();
      await draft?.release();
    }
  },
};

async function answer(conversation: Chat, line: string, quiet: boolean, signal: AbortSignal): Promise<void> {
  const reply = conversation.send(line, { signal });
  const output = textOutput();
  await finish(reply, signal, (text) => output.write(text));
  output.end();
  process.stdout.write("\n");
  if (!quiet) printSummary(reply.summary, true);
  process.stdout.write("\n");
}

/** Does what a command says; what is told of it. */
function obey(name: string, rest: string, conversation: Chat): string {
  const count = rest === "" ? 1 : Number(rest);
  try {
    switch (name) {
      case "undo":
      case "back":
        conversation.undo(count);
        break;
      case "clear":
      case "new":
        conversation.rewindTo(0);
        break;
      case "help":
        return help;
      default:
        return `there is no /${name}\n${help}`;
    }
    return `${conversation.turns === 1 ? "1 turn is" : `${conversation.turns} turns are`} left\n`;
  } catch (error) {
    if (error instanceof InsituError) return error.message;
    throw error;
  }
}
