/** Server-sent events with a bound: what waits for a reader is counted, and a stream that is read too slowly ends. */
import type { StreamEvent } from "./wire/answer.js";

/** How a stream ended that nobody closed. */
export type StreamLoss = "gone" | "slow";

/** How often a stream that has nothing to say shows that it is alive. */
const aliveMilliseconds = 15_000;

const encoder = new TextEncoder();

/** A stream of events. */
export class EventStream {
  readonly readable: ReadableStream<Uint8Array>;
  readonly #lost: (loss: StreamLoss) => void;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #alive: ReturnType<typeof setInterval>;

  /** `lost` is called once, if the reader leaves or is too slow. */
  constructor(waitingBytes: number, lost: (loss: StreamLoss) => void) {
    this.#lost = lost;
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        cancel: () => this.#lose("gone"),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: waitingBytes }),
    );
    this.#alive = setInterval(() => this.#write(": still here\n\n"), aliveMilliseconds);
  }

  send(events: readonly StreamEvent[]): void {
    for (const { event, data } of events)
      this.#write(event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`);
  }

  /** Ends the stream; what waits is still read. */
  close(): void {
    const controller = this.#controller;
    this.#forget();
    controller?.close();
  }

  #write(text: string): void {
    const controller = this.#controller;
    if (controller === undefined) return;
    if ((controller.desiredSize ?? 0) <= 0) {
      // The reader finds the end of what it has not read, without a last word.
      this.#lose("slow");
      controller.close();
      return;
    }
    controller.enqueue(encoder.encode(text));
  }

  #lose(loss: StreamLoss): void {
    if (this.#controller === undefined) return;
    this.#forget();
    this.#lost(loss);
  }

  #forget(): void {
    this.#controller = undefined;
    clearInterval(this.#alive);
  }
}
