/** When a request has to end: its time is up, or its client has left. One place for all requests, whatever they wait for. */
import { ApiError } from "./wire/api-error.js";

/** The status that nobody reads: the client has left. */
export const clientGone = 499;

/** The reason of a request whose client has left. */
export class ClientGone extends Error {}

/** What a request is told that took too long. */
const tooLate = (seconds: number): ApiError =>
  new ApiError(504, `the request took longer than ${seconds} seconds`, { code: "timeout" });

/** The end of one request. */
export class RequestEnd {
  readonly #ending = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #client: AbortSignal;
  readonly #gone = (): void => this.#ending.abort(new ClientGone("the client has left"));

  constructor(client: AbortSignal, seconds: number) {
    this.#client = client;
    const milliseconds = Math.min(seconds * 1000, 2 ** 31 - 1);
    this.#timer = setTimeout(() => this.#ending.abort(tooLate(seconds)), milliseconds);
    if (client.aborted) this.#gone();
    else client.addEventListener("abort", this.#gone, { once: true });
  }

  /** Aborted with `ClientGone`, or with the error that the client is told. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Nothing ends the request any more: it is over. */
  over(): void {
    clearTimeout(this.#timer);
    this.#client.removeEventListener("abort", this.#gone);
  }

  /** What work comes to, or the reason why it is not waited for any more. */
  async race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this;
    let left: (() => void) | undefined;
    const ended = new Promise<never>((_, reject) => {
      left = () => reject(signal.reason as Error);
      if (signal.aborted) left();
      else signal.addEventListener("abort", left, { once: true });
    });
    try {
      return await Promise.race([work, ended]);
    } finally {
      signal.removeEventListener("abort", left!);
    }
  }
}
