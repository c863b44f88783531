/** A language model that a thread runs, and its conversations, as the page sees them: `CausalLM`'s names, without its blocking the page. */
import { optionsWithoutNull } from "../base/arguments.js";
import { warnOnce } from "../base/warn-once.js";
import { ChatTurns } from "../generate/chat-turns.js";
import type { LoadLanguageModelOptions } from "../generate/causal-lm.js";
import type { Prompt } from "../generate/prompt-items.js";
import { type AnyChatMessage, type ChatMessage, checkMessages } from "../generate/messages.js";
import { chatArguments, defaultRounds, messagesOf } from "../generate/chat.js";
import { type ChatOptions, chatOptionNames } from "../generate/chat-options.js";
import { ChatReply } from "../generate/chat-reply.js";
import { type ChatTools, toolSpecs } from "../generate/chat-tools.js";
import type { GenerationSummary } from "../generate/generation.js";
import type { GenerateOptions } from "../generate/options.js";
import type { EncodeOptions } from "../generate/tokenizer.js";
import { splitOptions } from "./crossing.js";
import { Link, type StartThread } from "./link.js";
import type { ModelFacts } from "./messages.js";
import { RemoteGeneration } from "./remote-generation.js";

/** A model in a thread of its own. */
export class RemoteModel {
  readonly #link: Link;
  readonly #facts: ModelFacts;

  protected constructor({ link, facts }: { readonly link: Link; readonly facts: ModelFacts }) {
    this.#link = link;
    this.#facts = facts;
  }

  /** Starts a thread and loads the model there; the thread ends where that fails. */
  protected static async prepare(
    start: StartThread,
    source: string | object | undefined,
    options: LoadLanguageModelOptions | undefined,
    base: string | undefined,
  ): Promise<{ readonly link: Link; readonly facts: ModelFacts }> {
    const split = splitOptions("the options of CausalLM.load", options);
    const link = new Link(start);
    try {
      if (base !== undefined) link.send({ kind: "base", url: base });
      const given = { source: source instanceof URL ? source.href : source, options: split.options };
      return { link, facts: await link.ask("loadModel", given, { listeners: split.listeners }) };
    } catch (error) {
      link.end();
      throw error;
    }
  }

  /** The backend that runs it: where it was loaded with backend "auto", the one that was found. */
  get backend(): string {
    return this.#facts.backend;
  }

  /** Tokens that prompt and text may take together. */
  get contextLength(): number {
    return this.#facts.contextLength;
  }

  /** How many tokens there are to choose from. */
  get vocabulary(): number {
    return this.#facts.vocabulary;
  }

  /** config.json. */
  get config(): Readonly<Record<string, unknown>> {
    return this.#facts.config;
  }

  /** True if messages are written by the model's own template. */
  get hasChatTemplate(): boolean {
    return this.#facts.hasChatTemplate;
  }

  /** Continues a prompt: iterate over the result for tokens with their text. What is wrong with a prompt is told there. */
  generate(prompt: Prompt, options?: GenerateOptions): RemoteGeneration {
    return new RemoteGeneration(this.#link, "the options of generate", options, (stream, plain) =>
      this.#link.send({ kind: "generate", stream, prompt, options: plain }),
    );
  }

  /** A conversation of several turns; `opening` is what was said before, a system message for one. */
  chat(opening?: readonly AnyChatMessage[] | ChatOptions, options?: ChatOptions): RemoteChat {
    const [said, given] = chatArguments(opening, options);
    checkMessages(said);
    return new RemoteChat(this.#link, said, given);
  }

  /** The tokens of a text. */
  encode(text: string, options?: EncodeOptions): Promise<readonly number[]> {
    return this.#link.ask("encode", { text, options });
  }

  /** The text of tokens. */
  decode(tokens: readonly number[]): Promise<string> {
    return this.#link.ask("decode", { tokens: [...tokens] });
  }

  /** The plan that runs the model, as text. */
  explain(): Promise<string> {
    return this.#link.ask("explain", {});
  }

  /** Lets go of the model and ends its thread. */
  release(): Promise<void> {
    return this.#link.release();
  }
}

/** A conversation. */
export class RemoteChat {
  readonly #link: Link;
  readonly #chat: number;
  readonly #options: ChatOptions;
  readonly #turns: ChatTurns<RemoteReply>;

  constructor(link: Link, opening: readonly AnyChatMessage[], options: ChatOptions | undefined) {
    const given = optionsWithoutNull("the options of chat", options, chatOptionNames);
    const { plain } = splitOptions("the options of chat", crossingChat(given), chatOptionNames).options;
    this.#link = link;
    this.#chat = link.next();
    this.#options = given;
    this.#turns = new ChatTurns(opening);
    link.send({ kind: "chat", chat: this.#chat, opening, options: plain });
  }

  /** Everything said so far, answers in the making included. */
  get messages(): readonly ChatMessage[] {
    return this.#turns.messages;
  }

  /** How many times the user has spoken. */
  get turns(): number {
    return this.#turns.count;
  }

  /** Says something; the answer is made while it is iterated. The answer before must be finished or given up. Tools run here, not in the thread. */
  send(content: string | AnyChatMessage | readonly AnyChatMessage[], options?: ChatOptions): RemoteReply {
    const said = messagesOf(content);
    checkMessages(said);
    const own = optionsWithoutNull("the options of chat.send", options, chatOptionNames);
    const given = { ...this.#options, ...own };
    const round = (messages: readonly AnyChatMessage[], of: ChatOptions): RemoteGeneration =>
      new RemoteGeneration(
        this.#link,
        "the options of chat.send",
        crossingChat(of),
        (stream, plain) =>
          this.#link.send({ kind: "send", stream, chat: this.#chat, message: messages, options: plain }),
        chatOptionNames,
      );
    let sent = 0;
    const reply: RemoteReply = new ChatReply({
      first: round(said, own),
      // The thread has what the model said; it is sent the results of its calls.
      ask: (more) => {
        const fresh = more.slice(sent).filter(({ role }) => role === "tool");
        sent = more.length;
        return round(fresh, { ...own, toolChoice: given.toolChoice === "none" ? "none" : "auto" });
      },
      tools: given.tools ?? {},
      maxRounds: given.maxRounds ?? defaultRounds,
      signal: given.signal,
    });
    this.#turns.add(said, reply);
    return reply;
  }

  /** Takes back the last `count` turns: one where left out. */
  undo(count = 1): void {
    this.#link.send({ kind: "rewind", chat: this.#chat, turns: this.#turns.undo(count) });
  }

  /** Goes back to the first `turns` turns: those after them are taken back. */
  rewindTo(turns: number): void {
    this.#turns.rewind(turns);
    this.#link.send({ kind: "rewind", chat: this.#chat, turns });
  }

  /** @deprecated The former name of `rewindTo`, which goes with the next version. */
  rewind(turns: number): void {
    warnOnce("chat.rewind", "chat.rewind is called chat.rewindTo; chat.undo takes back the last turns");
    this.rewindTo(turns);
  }

  /** Gives the caches back. */
  release(): Promise<void> {
    return this.#link.ask("releaseChat", { chat: this.#chat });
  }
}

/** An answer that a thread makes. */
type RemoteReply = ChatReply<GenerationSummary | undefined>;

/** Options without what stays on this side: functions run here, and schemas cross as JSON. */
function crossingChat(given: ChatOptions): ChatOptions {
  const { tools, maxRounds: _, ...options } = given;
  if (tools === undefined) return options;
  const plain = toolSpecs(tools).map(({ name, description, parameters, strict }) => [
    name,
    { parameters, strict: strict === true, ...(description === undefined ? {} : { description }) },
  ]);
  return { ...options, tools: Object.fromEntries(plain) as ChatTools };
}
