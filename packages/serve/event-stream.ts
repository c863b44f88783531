/** A stream of events, in the form that its answer has. Whoever reads gets all of them, however much is said in one go; who reads nothing for a time while much waits is slow. */
import type { StreamEvent, StreamForm } from "./wire/answer.js";

/** How a stream ended that nobody closed. */
export type StreamLoss = "gone" | "slow";

/** How often a stream is looked after, after how many looks without a read it is slow, and after how many it shows that it is alive. */
const lookMilliseconds = 500;
const stalledLooks = 4;
const aliveLooks = 30;

/** How often the bytes that may wait are so many that half the time is enough. */
const heavy = 16;

/** How long a slow reader has for what waited and for why it is cut; then that is let go of. */
const graceMilliseconds = 10_000;

const encoder = new TextEncoder();

/** A stream of events. */
export class EventStream {
  readonly readable: ReadableStream<Uint8Array>;
  readonly #lost: (loss: StreamLoss) => void;
  readonly #waitingBytes: number;
  readonly #form: StreamForm;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  readonly #timer: ReturnType<typeof setInterval>;
  #written = 0;
  /** What was said in this turn of the event loop: it is one write. */
  #said = "";
  /** Bytes that were read when it was last looked at, and how many looks ago that changed. */
  #read = 0;
  #stalled = 0;
  #isSlow = false;
  #silent = 0;

  /** `lost` is called once, if the reader leaves, or stalls while more than so many bytes wait for it; the stream can still be told why. */
  constructor(waitingBytes: number, form: StreamForm, lost: (loss: StreamLoss) => void) {
    this.#form = form;
    this.#lost = lost;
    this.#waitingBytes = waitingBytes;
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        cancel: () => {
          if (this.#controller === undefined) return;
          this.#forget();
          lost("gone");
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: waitingBytes }),
    );
    this.#timer = setInterval(() => this.#look(), lookMilliseconds);
  }

  send(events: readonly StreamEvent[]): void {
    for (const event of events) this.#write(this.#form.written(event));
  }

  /** Ends the stream; what waits is still read. */
  close(): void {
    const controller = this.#controller;
    this.#flush();
    this.#forget();
    controller?.close();
    if (!this.#isSlow || controller === undefined) return;
    const timer = setTimeout(() => controller.error(new Error("the stream was not read")), graceMilliseconds) as
      | number
      | { unref(): void };
    // In Node nobody is waited for.
    if (typeof timer === "object") timer.unref();
  }

  #write(text: string): void {
    if (text === "") return;
    if (this.#said === "") queueMicrotask(() => this.#flush());
    this.#said += text;
  }

  #flush(): void {
    if (this.#said === "") return;
    const bytes = encoder.encode(this.#said);
    this.#said = "";
    this.#silent = 0;
    this.#written += bytes.length;
    this.#controller?.enqueue(bytes);
  }

  /** Looks are what is counted, not the clock: while the server itself is held up nobody can read. */
  #look(): void {
    const waiting = this.#waitingBytes - (this.#controller?.desiredSize ?? 0);
    const read = this.#written - waiting;
    this.#stalled = read > this.#read || waiting <= this.#waitingBytes ? 0 : this.#stalled + 1;
    this.#read = read;
    const most = waiting > heavy * this.#waitingBytes ? stalledLooks / 2 : stalledLooks;
    if (this.#stalled >= most) {
      clearInterval(this.#timer);
      this.#isSlow = true;
      this.#lost("slow");
    } else if (++this.#silent >= aliveLooks) this.#write(this.#form.alive ?? "");
  }

  #forget(): void {
    this.#controller = undefined;
    clearInterval(this.#timer);
  }
}
