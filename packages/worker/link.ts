/** The page's end of the line to a thread: questions and their answers, streams, and what becomes of both when the thread ends. */
import { InsituError } from "#insitu/base/error.js";
import { errorOf } from "./crossing.js";
import type { Calls, FromThread, ToThread } from "./messages.js";

/** A thread that was started, as a platform gives it. */
interface ThreadPort {
  post(message: ToThread, transfer: readonly ArrayBufferLike[]): void;
  /** Whether the thread keeps the process alive; left out where there is no process. */
  hold?(busy: boolean): void;
  terminate(): void;
}

/** Starts a thread. `hear` gets its messages, `fail` why it ended or never began. */
export type StartThread = (hear: (message: FromThread) => void, fail: (reason: string) => void) => ThreadPort;

/** What a stream is told. */
export type StreamEvent = Extract<FromThread, { kind: "token" | "end" }>;

interface Pending {
  resolve(value: never): void;
  reject(error: Error): void;
  readonly listeners: ReadonlyMap<string, (...values: readonly unknown[]) => void> | undefined;
}

/** A thread with a model. */
export class Link {
  readonly #port: ThreadPort;
  readonly #pending = new Map<number, Pending>();
  readonly #streams = new Map<number, (event: StreamEvent) => void>();
  /** Why nothing can be asked any more. */
  #gone: InsituError | undefined;
  #last = 0;

  constructor(start: StartThread) {
    this.#port = start(
      (message) => this.#hear(message),
      (reason) => this.#lose(new InsituError("thread-lost", `the worker that runs the model ended: ${reason}`)),
    );
  }

  /** A number that nothing else of this thread has. */
  next(): number {
    return ++this.#last;
  }

  /** Asks, and waits for the answer. */
  async ask<Name extends keyof Calls>(
    name: Name,
    given: Parameters<Calls[Name]>[0],
    more: {
      readonly listeners?: Pending["listeners"];
      readonly transfer?: readonly ArrayBufferLike[];
      readonly signal?: AbortSignal | undefined;
    } = {},
  ): Promise<ReturnType<Calls[Name]>> {
    const { signal } = more;
    signal?.throwIfAborted();
    const id = this.next();
    const answer = new Promise<ReturnType<Calls[Name]>>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, listeners: more.listeners });
    });
    try {
      this.send({ kind: "ask", id, name, given }, more.transfer);
    } catch (error) {
      this.#pending.delete(id);
      throw error;
    }
    this.#hold();
    if (signal === undefined) return answer;
    const cancel = (): void => {
      if (this.#gone === undefined) this.send({ kind: "cancel", id });
    };
    signal.addEventListener("abort", cancel, { once: true });
    try {
      return await answer;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  /** Says something that has no answer. */
  send(message: ToThread, transfer: readonly ArrayBufferLike[] = []): void {
    if (this.#gone !== undefined) throw this.#gone;
    try {
      this.#port.post(message, transfer);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InsituError("invalid-argument", `what was given cannot be sent to a worker: ${reason}`, { cause });
    }
  }

  /** Hears a stream until its end. */
  listen(stream: number, hear: (event: StreamEvent) => void): void {
    this.#streams.set(stream, hear);
    this.#hold();
  }

  /** Lets go of what the thread holds and ends it. What was released, or has ended by itself, need not be let go of. */
  async release(): Promise<void> {
    try {
      await this.ask("release", {});
    } catch (error) {
      if (!(error instanceof InsituError) || !["released", "thread-lost"].includes(error.code)) throw error;
    } finally {
      this.end();
    }
  }

  /** Ends the thread; everything that is asked for later is refused. */
  end(): void {
    this.#lose(new InsituError("released", "the model was released"));
  }

  #hear(message: FromThread): void {
    switch (message.kind) {
      case "ready":
        return;
      case "answer":
      case "refusal": {
        const pending = this.#pending.get(message.id);
        this.#pending.delete(message.id);
        if (message.kind === "answer") pending?.resolve(message.value as never);
        else pending?.reject(errorOf(message.error));
        break;
      }
      case "told":
        this.#pending.get(message.id)?.listeners?.get(message.name)?.(...message.values);
        return;
      case "token":
      case "end": {
        const hear = this.#streams.get(message.stream);
        if (message.kind === "end") this.#streams.delete(message.stream);
        hear?.(message);
        break;
      }
      default:
        message satisfies never;
    }
    this.#hold();
  }

  #lose(reason: InsituError): void {
    if (this.#gone !== undefined) return;
    this.#gone = reason;
    const { name, message, code, stack } = reason;
    for (const pending of this.#pending.values()) pending.reject(reason);
    for (const [stream, hear] of this.#streams)
      hear({ kind: "end", stream, summary: undefined, error: { name, message, code, stack } });
    this.#pending.clear();
    this.#streams.clear();
    this.#port?.terminate();
  }

  #hold(): void {
    this.#port.hold?.(this.#pending.size + this.#streams.size > 0);
  }
}
