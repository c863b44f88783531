// What the tests of the server share: the embedded model with a chat template of its own, an engine that says what it is told to, and servers.
import { InsituError } from "../../src/base/error.js";
import { listen, type Listening } from "../../packages/cli/listen.js";
import { Ending } from "../../src/engine/ending.js";
import { CausalLM } from "../../src/entry/node.js";
import type {
  Engine,
  EngineFigures,
  MadeToken,
  RunningText,
  TextEnd,
  TextListener,
  TextRequest,
  TokenLogprob,
} from "../../packages/serve/engine.js";
import { createServer, type Server, type ServerOptions } from "../../packages/serve/server.js";

/** A template in the manner of Qwen's: tools in the first message, calls between tags. */
export const hermesTemplate = `{%- if tools %}{{- '<|system|>tools:' }}{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{{- '\\nCall them within <tool_call></tool_call>.\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}{{- '<|tool|>' + message.content + '\\n' }}
{%- else %}{{- '<|' + message.role + '|>' + message.content }}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor %}{%- endif %}{{- '\\n' }}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}`;

/** The embedded model on pages, which has no template, or this one. */
export const loadModel = (chatTemplate?: string): Promise<CausalLM> =>
  CausalLM.load(undefined, { threads: 1, cache: "paged", ...(chatTemplate === undefined ? {} : { chatTemplate }) });

/** What a text of the scripted engine is. */
export interface Script {
  readonly text?: string;
  readonly tokens?: readonly number[];
  readonly end?: TextEnd;
  readonly fails?: Error;
}

interface Slot {
  readonly request: TextRequest;
  readonly listener: TextListener;
  readonly tokens: readonly number[];
  readonly script: Script;
  readonly ending: Ending;
  next: number;
  blocks: number;
}

const blockSize = 16;

/** An engine that says what a script says, a token a turn for each text that runs. */
export class ScriptedEngine implements Engine {
  readonly context: number;
  readonly vocabulary = 4096;
  /** What was asked for, in order. */
  readonly requests: TextRequest[] = [];
  /** While true, no text goes on. */
  held = false;
  readonly #lm: CausalLM;
  readonly #script: (request: TextRequest) => Script;
  readonly #most: number;
  readonly #slots: number;
  readonly #waiting: Slot[] = [];
  readonly #running: Slot[] = [];
  #turning = false;
  #closed = false;
  #idle: (() => void)[] = [];
  #made = { promptTokens: 0, reusedTokens: 0, madeTokens: 0, steps: 0 };
  embed?: Engine["embed"];

  constructor(
    lm: CausalLM,
    script: (request: TextRequest) => Script,
    { waiting = 8, slots = 4, context = 512 }: { waiting?: number; slots?: number; context?: number } = {},
  ) {
    this.#lm = lm;
    this.#script = script;
    this.#most = waiting;
    this.#slots = slots;
    this.context = context;
  }

  submit(request: TextRequest, listener: TextListener): RunningText {
    if (this.#closed) throw new InsituError("closed", "the server accepts no new requests");
    if (request.prompt.length >= this.context)
      throw new InsituError("context-overflow", `${request.prompt.length} tokens, the context holds ${this.context}`);
    if (this.#waiting.length >= this.#most)
      throw Object.assign(new InsituError("queue-full", `${this.#most} texts are waiting`), { retryAfterSeconds: 2.5 });
    this.requests.push(request);
    const script = this.#script(request);
    const tokens = script.tokens ?? this.#lm.tokenizer.encode(script.text ?? "", { specialTokens: false });
    const slot: Slot = { request, listener, tokens, script, ending: new Ending(request), next: 0, blocks: 0 };
    this.#waiting.push(slot);
    this.#turn();
    return { cancel: () => this.#drop(slot) };
  }

  /** Lets held texts go on. */
  go(): void {
    this.held = false;
    this.#turn();
  }

  figures(): EngineFigures {
    return {
      ...this.#made,
      waiting: this.#waiting.length,
      running: this.#running.length,
      blocks: 1024,
      blocksUsed: this.#running.reduce((sum, { blocks }) => sum + blocks, 0),
      blockSize,
      preemptions: 0,
    };
  }

  async drain(limitMilliseconds: number): Promise<void> {
    this.#closed = true;
    let timer: NodeJS.Timeout | undefined;
    const done = new Promise<void>((resolve) => {
      if (this.#running.length + this.#waiting.length === 0) resolve();
      this.#idle.push(resolve);
      timer = setTimeout(resolve, limitMilliseconds);
    });
    await done;
    clearTimeout(timer);
    await this.close();
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const slot of [...this.#running, ...this.#waiting]) {
      this.#drop(slot);
      slot.listener.failed(new InsituError("closed", "the server was closed before the completion was finished"));
    }
    return Promise.resolve();
  }

  #turn(): void {
    if (this.#turning) return;
    this.#turning = true;
    setImmediate(() => {
      this.#turning = false;
      if (!this.held) this.#step();
      if (!this.held && this.#running.length + this.#waiting.length > 0) this.#turn();
    });
  }

  #step(): void {
    this.#made.steps++;
    while (this.#running.length < this.#slots && this.#waiting.length > 0) {
      const slot = this.#waiting.shift()!;
      this.#running.push(slot);
      slot.blocks = Math.ceil(slot.request.prompt.length / blockSize);
      this.#made.promptTokens += slot.request.prompt.length;
      slot.listener.started?.({ cachedTokens: 0 });
    }
    for (const slot of this.#running.slice()) this.#make(slot);
  }

  #make(slot: Slot): void {
    const { request, listener, script, tokens, ending } = slot;
    if (!this.#running.includes(slot)) return;
    const over = (end: TextEnd): void => {
      this.#drop(slot);
      listener.ended(end);
    };
    if (slot.next >= tokens.length) {
      this.#drop(slot);
      if (script.fails !== undefined) listener.failed(script.fails);
      else {
        const { text } = ending.push(0, false, true);
        listener.ended(script.end ?? "end-token", { token: 0, text });
      }
      return;
    }
    const token = tokens[slot.next++];
    this.#made.madeTokens++;
    slot.blocks = Math.ceil((request.prompt.length + slot.next) / blockSize);
    if (request.constraint?.accept(token) === false) {
      this.#drop(slot);
      return listener.failed(new InsituError("internal", `the script breaks the grammar with token ${token}`));
    }
    const { text, end, stop } = ending.push(token, false, false);
    const made = { ...told(token, request.logprobs), text, ...(stop === undefined ? {} : { stop }) };
    const isStopped = listener.token(made) === "stop";
    if (end !== undefined || isStopped) over(end ?? "stopped");
  }

  #drop(slot: Slot): void {
    for (const list of [this.#waiting, this.#running]) {
      const at = list.indexOf(slot);
      if (at >= 0) list.splice(at, 1);
    }
    if (this.#running.length + this.#waiting.length === 0) for (const each of this.#idle.splice(0)) each();
  }
}

/** Log-probabilities that a test can recognise. */
function told(token: number, logprobs: number | undefined): Omit<MadeToken, "text"> {
  if (logprobs === undefined) return { token };
  const top: TokenLogprob[] = Array.from({ length: logprobs }, (_, at) => ({ token: at + 1, logprob: -1 - at }));
  return { token, logprob: -0.5, top };
}

/** A server on a port. */
export interface Running {
  readonly server: Server;
  readonly engine: ScriptedEngine;
  readonly address: string;
  /** Asks with this body. */
  readonly post: (path: string, body: unknown, init?: RequestInit) => Promise<Response>;
  readonly stop: () => Promise<void>;
}

/** Serves a script, on a free port unless one is given. */
export async function serveScript(
  lm: CausalLM,
  script: (request: TextRequest) => Script,
  options: ServerOptions & { readonly waiting?: number; readonly slots?: number; readonly context?: number } = {},
  port = 0,
): Promise<Running> {
  const { waiting, slots, context, ...more } = options;
  const engine = new ScriptedEngine(lm, script, {
    ...(waiting === undefined ? {} : { waiting }),
    ...(slots === undefined ? {} : { slots }),
    ...(context === undefined ? {} : { context }),
  });
  const server = createServer(lm, { model: "scripted", ...more, engine: () => engine });
  await server.ready;
  const listening: Listening = await listen(server, "127.0.0.1", port);
  return {
    server,
    engine,
    address: listening.address,
    post: (path, body, init = {}) =>
      fetch(`${listening.address}${path}`, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        headers: { "content-type": "application/json" },
        ...init,
      }),
    async stop() {
      await server.close();
      await listening.close();
    },
  };
}

/** The data of a stream's events; the last is "[DONE]" where the stream says so. */
export function eventsOf(text: string): unknown[] {
  return text
    .split("\n\n")
    .filter((event) => event !== "" && !event.startsWith(":"))
    .map((event) => {
      const data = /^data: (.*)$/m.exec(event)![1];
      return data === "[DONE]" ? data : (JSON.parse(data) as unknown);
    });
}

/** Waits until something holds. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2));
}
