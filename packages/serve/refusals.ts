/**
 * When refusals are told. A client that asks again as soon as it is refused would otherwise keep the server busy with nothing but that: those of
 * one tenant are told one after another, with a pause in between. Nothing of a request is kept meanwhile.
 */

/** Milliseconds between two refusals of a tenant, and those that one waits at most. */
const between = 10;
const longest = 1000;

/** The pace of refusals, by tenant. */
export class Refusals {
  /** When the next one may be told. */
  readonly #next = new Map<string, number>();

  /** Resolves when a refusal may be told: at once, unless there were others just now. */
  async turn(tenant: string): Promise<void> {
    const now = performance.now();
    for (const [other, time] of this.#next) if (time <= now) this.#next.delete(other);
    const at = this.#next.get(tenant) ?? now;
    this.#next.set(tenant, Math.min(at, now + longest) + between);
    if (at > now) await new Promise((resolve) => setTimeout(resolve, Math.min(at - now, longest)));
  }
}
