/**
 * Texts that wait: higher priorities first; within one the tenant that has the fewest texts running, among equals turn by turn, and each
 * tenant's own in the order in which they came. Knows no blocks.
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
  /** By tenant, each by arrival; the tenant whose turn is next comes first. No list is empty. */
  tenants: Map<string, T[]>;
}

/** A line of texts. */
export class WaitingLine<T extends Waiting> {
  /** The highest priority first. None is empty. */
  #ranks: Rank<T>[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Whose turn it is, where so many texts of a tenant run. */
  first(running: (tenant: string) => number = () => 0): T | undefined {
    let first: T | undefined;
    let fewest = Infinity;
    for (const [tenant, [text]] of this.#ranks[0]?.tenants ?? []) {
      const count = running(tenant);
      if (count >= fewest) continue;
      first = text;
      fewest = count;
    }
    return first;
  }

  /** A text that came, or gave its place to another tenant's. */
  add(text: T): void {
    const { tenants } = this.#rankOf(text.priority);
    const own = tenants.get(text.tenant);
    if (own === undefined) tenants.set(text.tenant, [text]);
    else own.splice(own.findLastIndex(({ arrival }) => arrival < text.arrival) + 1, 0, text);
    this.#count++;
  }

  /** A text that was running and waits again without its tenant's doing: the tenant has its turn back. */
  putBack(text: T): void {
    this.add(text);
    const rank = this.#rankOf(text.priority);
    rank.tenants = new Map([[text.tenant, rank.tenants.get(text.tenant)!], ...rank.tenants]);
  }

  /** Takes out a text whose turn it was: its tenant has the next one after all others. */
  take(text: T): void {
    this.remove(text);
    const tenants = this.#ranks.find(({ priority }) => priority === text.priority)?.tenants;
    const own = tenants?.get(text.tenant);
    if (tenants === undefined || own === undefined) return;
    tenants.delete(text.tenant);
    tenants.set(text.tenant, own);
  }

  /** Takes a text out of the line, wherever it stands; false where it does not. */
  remove(text: T): boolean {
    const rank = this.#ranks.find(({ priority }) => priority === text.priority);
    const own = rank?.tenants.get(text.tenant) ?? [];
    const at = own.indexOf(text);
    if (rank === undefined || at < 0) return false;
    own.splice(at, 1);
    this.#count--;
    if (own.length === 0) rank.tenants.delete(text.tenant);
    if (rank.tenants.size === 0) this.#ranks = this.#ranks.filter((each) => each !== rank);
    return true;
  }

  #rankOf(priority: number): Rank<T> {
    const found = this.#ranks.find((rank) => rank.priority === priority);
    if (found !== undefined) return found;
    const rank: Rank<T> = { priority, tenants: new Map() };
    this.#ranks = [...this.#ranks, rank].toSorted((a, b) => b.priority - a.priority);
    return rank;
  }
}
