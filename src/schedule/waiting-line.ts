/**
 * Texts that wait: higher priorities first; within one those that were running before, then round robin over tenants, and each tenant's own
 * in the order in which they came. Knows no blocks.
 */

/** What the line looks at. */
interface Waiting {
  readonly tenant: string;
  readonly priority: number;
  /** Counts up with each text that came. */
  readonly arrival: number;
}

/** The texts of one priority. */
interface Rank<T> {
  readonly priority: number;
  /** Those that were running before, by arrival. */
  readonly returned: T[];
  /** By tenant; the tenant whose turn is next comes first. No list is empty. */
  readonly tenants: Map<string, T[]>;
}

/** A line of texts. */
export class WaitingLine<T extends Waiting> {
  /** The highest priority first. None is empty. */
  #ranks: Rank<T>[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Whose turn it is. */
  get first(): T | undefined {
    const rank = this.#ranks[0];
    if (rank === undefined) return undefined;
    if (rank.returned.length > 0) return rank.returned[0];
    for (const [text] of rank.tenants.values()) return text;
    return undefined;
  }

  /** A text that came. */
  add(text: T): void {
    const { tenants } = this.#rankOf(text.priority);
    const own = tenants.get(text.tenant);
    if (own === undefined) tenants.set(text.tenant, [text]);
    else own.push(text);
    this.#count++;
  }

  /** A text that was running and waits again: in front of all that never ran. */
  putBack(text: T): void {
    const { returned } = this.#rankOf(text.priority);
    const at = returned.findIndex(({ arrival }) => arrival > text.arrival);
    returned.splice(at < 0 ? returned.length : at, 0, text);
    this.#count++;
  }

  /** Takes the first out of the line: the turn goes to the next tenant, unless the text had it before. */
  takeFirst(): void {
    const text = this.first;
    if (text === undefined) return;
    const { tenants, returned } = this.#ranks[0];
    const hadItsTurn = returned.includes(text);
    this.remove(text);
    if (hadItsTurn) return;
    const own = tenants.get(text.tenant);
    if (own === undefined) return;
    tenants.delete(text.tenant);
    tenants.set(text.tenant, own);
  }

  /** Takes a text out of the line, wherever it stands; false where it does not. */
  remove(text: T): boolean {
    const rank = this.#ranks.find(({ priority }) => priority === text.priority);
    const own = rank?.tenants.get(text.tenant) ?? [];
    const list = rank?.returned.includes(text) ? rank.returned : own;
    const at = list.indexOf(text);
    if (rank === undefined || at < 0) return false;
    list.splice(at, 1);
    this.#count--;
    if (list === own && own.length === 0) rank.tenants.delete(text.tenant);
    if (rank.returned.length === 0 && rank.tenants.size === 0)
      this.#ranks = this.#ranks.filter((each) => each !== rank);
    return true;
  }

  #rankOf(priority: number): Rank<T> {
    const found = this.#ranks.find((rank) => rank.priority === priority);
    if (found !== undefined) return found;
    const rank: Rank<T> = { priority, returned: [], tenants: new Map() };
    this.#ranks = [...this.#ranks, rank].toSorted((a, b) => b.priority - a.priority);
    return rank;
  }
}
