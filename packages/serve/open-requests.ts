/** Requests that are open: how many each key has, and what they all hold until they are over. */
import { ApiError } from "./wire/api-error.js";

/** Bytes that any request may hold; only those that hold more are counted together. */
const anyBytes = 16 << 10;

/** Bodies of the greatest length that large requests may hold together. */
const mostBodies = 16;

/** What is open on a server. */
export class OpenRequests {
  readonly #most: number;
  readonly #mostBytes: number;
  readonly #counts = new Map<string, number>();
  #bytes = 0;

  constructor({ openRequests, bodyBytes }: { readonly openRequests: number; readonly bodyBytes: number }) {
    this.#most = openRequests;
    this.#mostBytes = mostBodies * bodyBytes;
  }

  /** Throws where a key has as many open as it may. */
  require(tenant: string): void {
    const open = this.#counts.get(tenant) ?? 0;
    if (open >= this.#most)
      throw new ApiError(429, `${open} requests are open with this key, the most that it can have`, {
        code: "too_many_requests",
        retryAfterSeconds: 1,
      });
  }

  /** Counts a request in, or refuses it. */
  enter(tenant: string): OpenRequest {
    this.require(tenant);
    this.#counts.set(tenant, (this.#counts.get(tenant) ?? 0) + 1);
    let [isOpen, held] = [true, 0];
    return {
      hold: (bytes) => {
        if (!isOpen || bytes <= anyBytes) return;
        if (this.#bytes + bytes > this.#mostBytes)
          throw new ApiError(429, `large requests hold ${this.#bytes} bytes, and may hold ${this.#mostBytes}`, {
            code: "too_many_requests",
            retryAfterSeconds: 1,
          });
        this.#bytes += bytes;
        held += bytes;
      },
      over: () => {
        if (!isOpen) return;
        isOpen = false;
        this.#bytes -= held;
        const left = this.#counts.get(tenant)! - 1;
        if (left === 0) this.#counts.delete(tenant);
        else this.#counts.set(tenant, left);
      },
    };
  }
}

/** One request that is open. */
export interface OpenRequest {
  /** Has it hold bytes until it is over; throws where all hold too many. */
  hold(bytes: number): void;
  /** Counts it out. */
  over(): void;
}
