/**
 * Places that tenants share. One alone may have all of them; where all are taken, who asks takes the places of the tenant that has the most, as
 * long as that one is left with no fewer. A tenant that has less than its share (places ÷ tenants) is never refused. Knows no texts.
 */

/** Who has a place. */
interface Holder {
  readonly tenant: string;
  readonly priority: number;
}

/** Places. */
export class FairPlaces<T extends Holder> {
  readonly #most: number;
  /** In the order in which they came. No list is empty. */
  readonly #holders = new Map<string, T[]>();
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Places of one tenant. */
  takenBy(tenant: string): number {
    return this.#holders.get(tenant)?.length ?? 0;
  }

  /**
   * Takes a place; who had to give one up, the last to come of those that matter least. Undefined where the tenant has its share: then nothing
   * changes. `coming` are the places that will be asked for right after this one, and are worth nothing without it: all of them or none.
   */
  take(holder: T, coming = 0): readonly T[] | undefined {
    const { tenant } = holder;
    const wanted = this.takenBy(tenant) + 1 + coming;
    const given = new Map<string, number>();
    for (let missing = this.#taken + 1 + coming - this.#most; missing > 0; missing--) {
      let [largest, size] = ["", wanted];
      for (const [other, { length }] of this.#holders) {
        const left = length - (given.get(other) ?? 0);
        if (other !== tenant && left > size) [largest, size] = [other, left];
      }
      if (size === wanted) return undefined;
      given.set(largest, (given.get(largest) ?? 0) + 1);
    }
    const yielding = [...given].flatMap(([other, count]) => this.#leastOf(other, count));
    for (const other of yielding) this.leave(other);
    this.#holders.set(tenant, [...(this.#holders.get(tenant) ?? []), holder]);
    this.#taken++;
    return yielding;
  }

  #leastOf(tenant: string, count: number): T[] {
    const own = this.#holders.get(tenant) ?? [];
    return own
      .map((holder, at) => ({ holder, at }))
      .toSorted((a, b) => a.holder.priority - b.holder.priority || b.at - a.at)
      .slice(0, count)
      .map(({ holder }) => holder);
  }

  /** Gives a place back, if the holder has one. */
  leave(holder: T): void {
    const own = this.#holders.get(holder.tenant) ?? [];
    const at = own.indexOf(holder);
    if (at < 0) return;
    own.splice(at, 1);
    this.#taken--;
    if (own.length === 0) this.#holders.delete(holder.tenant);
  }
}
