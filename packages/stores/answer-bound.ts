/**
 * A bound on what comes over connections that somebody else makes: one that brings more than was asked for is ended, before all of it is kept. Where
 * a runtime does not tell of new sockets (Node does, but for TLS) there is none, and deadlines alone hold.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** Bytes that may come beyond what is asked for: greetings, errors, which servers of a cluster there are. */
const slack = 2 ** 20;

const making = new AsyncLocalStorage<AnswerBound>();
let isWatching = false;

/** What may come. */
export class AnswerBound {
  #allowed = slack;
  #open = 0;

  /** Does work whose answers have so many bytes at most; connections that it makes have this bound. */
  async during<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    if (!isWatching) watchSockets();
    isWatching = true;
    this.#open++;
    this.#allowed += bytes;
    try {
      return await making.run(this, work);
    } finally {
      if (--this.#open === 0) this.#allowed = slack;
    }
  }

  /** Bytes came; false where they are too many. */
  take(bytes: number): boolean {
    this.#allowed -= bytes;
    return this.#allowed >= 0;
  }
}

function watchSockets(): void {
  subscribe("net.client.socket", (message) => {
    const bound = making.getStore();
    if (bound === undefined) return;
    const { socket } = message as { readonly socket: Socket };
    // Not before: who listens for data has it flow.
    socket.once("connect", () =>
      socket.prependListener("data", (chunk: Buffer) => {
        if (!bound.take(chunk.length)) socket.destroy(new Error("it answered with more bytes than were asked for"));
      }),
    );
  });
}
