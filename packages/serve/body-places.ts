/**
 * Bodies on their way. Small ones come as they like; of large ones a few are read at a time, the others wait unread. Whoever has a place and is
 * slow loses it to those who wait, so that slow senders can shut nobody out and what all bodies hold is bounded.
 */
import { ApiError } from "./wire/api-error.js";

/** Bytes up to which a body needs no place. */
export const smallBytes: number = 64 << 10;

/** Large bodies that are read, or made something of, at a time. */
const mostLarge = 4;

/** Bodies that are on their way at a time; the one that came first makes room for another. */
const mostComing = 1024;

/** How slow a large body may be while others wait, and after how long that is asked. */
const leastBytesPerSecond = 256 << 10;
const lookMilliseconds = 1000;

/** One body on its way. */
export interface ComingBody {
  /** Bytes that are there. */
  bytes: number;
  /** All of it is there: it is not waited for any more. */
  isWhole: boolean;
  /** Called once, if the body has to make room. */
  readonly refuse: (error: ApiError) => void;
}

interface Seat {
  readonly since: number;
  /** Bytes that were there when it was had. */
  readonly from: number;
}

/** The places of a server. */
export class BodyPlaces {
  /** The first that came first. */
  readonly #coming = new Set<ComingBody>();
  readonly #seats = new Map<ComingBody, Seat>();
  readonly #line = new Map<ComingBody, () => void>();
  #timer: ReturnType<typeof setInterval> | undefined;

  enter(body: ComingBody): void {
    this.#coming.add(body);
    if (this.#coming.size <= mostComing) return;
    const [first] = this.#coming;
    this.#coming.delete(first);
    first.refuse(tooSlow());
  }

  /** Resolves when a body that is large has its place. */
  seat(body: ComingBody): Promise<void> {
    return new Promise((resolve) => {
      this.#line.set(body, resolve);
      this.#timer ??= setInterval(() => this.#look(), lookMilliseconds);
      this.#hand();
    });
  }

  /** The body is there: only what is made of it is waited for. */
  arrived(body: ComingBody): void {
    body.isWhole = true;
    this.#coming.delete(body);
  }

  /** Nothing of the body is needed any more. */
  leave(body: ComingBody): void {
    this.#coming.delete(body);
    this.#seats.delete(body);
    this.#line.get(body)?.();
    this.#line.delete(body);
    this.#hand();
  }

  #hand(): void {
    for (const [body, resolve] of this.#line) {
      if (this.#seats.size >= mostLarge) return;
      this.#line.delete(body);
      this.#seats.set(body, { since: performance.now(), from: body.bytes });
      resolve();
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Others wait: who is slow goes. */
  #look(): void {
    for (const [body, { since, from }] of this.#seats) {
      const seconds = (performance.now() - since) / 1000;
      const isSlow = seconds >= 1 && body.bytes - from < seconds * leastBytesPerSecond;
      if (isSlow && !body.isWhole) body.refuse(tooSlow());
    }
  }
}

const tooSlow = (): ApiError =>
  new ApiError(408, "the body came too slowly, and others wait: send it again", { code: "body_too_slow" });
