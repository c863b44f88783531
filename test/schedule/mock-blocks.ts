// Blocks written for the tests of the scheduler: what each row holds is kept, so that a text that read the wrong rows goes on wrongly. Shares
// full blocks by the tokens before them, in one map of strings, which has nothing in common with the pool of pages.
import { expect } from "vitest";
import type { TextBlocks } from "../../packages/schedule/text-blocks.js";

interface Block {
  rows: number[];
  users: number;
  /** All tokens up to its end, once it is full. */
  key: string | undefined;
}

interface Held {
  readonly salt: string;
  readonly tokens: number[];
  blocks: Block[];
}

/** All blocks, and who holds them. */
export class MockBlocks implements TextBlocks {
  readonly #texts = new Map<string, Held>();
  readonly #known = new Map<string, Block>();
  readonly #names = new Map<string, number>();
  readonly #size: number;
  readonly #count: number;
  #used = 0;

  constructor(count: number, size: number) {
    this.#count = count;
    this.#size = size;
  }

  get available(): number {
    return this.#count - this.#used;
  }

  /** Makes a text known, with what it begins with. */
  add(id: string, salt: string, tokens: readonly number[]): void {
    this.#texts.set(id, { salt, tokens: [...tokens], blocks: [] });
  }

  forget(id: string): void {
    this.release(id);
    this.#texts.delete(id);
  }

  tokens(id: string): number[] {
    return this.#texts.get(id)!.tokens;
  }

  /** What a text's blocks hold. */
  rows(id: string): number[] {
    return this.#texts.get(id)!.blocks.flatMap(({ rows }) => rows);
  }

  share(id: string): number {
    const held = this.#texts.get(id)!;
    const found: Block[] = [];
    while ((found.length + 1) * this.#size < held.tokens.length) {
      const block = this.#known.get(this.#keyOf(held, found.length + 1));
      if (block === undefined) break;
      found.push(block);
    }
    if (found.length * this.#size <= this.rows(id).length) return this.rows(id).length;
    for (const block of found) this.#retain(block);
    for (const block of held.blocks) this.#drop(block);
    held.blocks = found;
    return found.length * this.#size;
  }

  names(id: string, from: number, to: number): number[] {
    const held = this.#texts.get(id)!;
    const names: number[] = [];
    for (let at = Math.ceil(from / this.#size) + 1; at * this.#size <= to; at++) {
      const key = this.#keyOf(held, at);
      if (!this.#names.has(key)) this.#names.set(key, this.#names.size);
      names.push(this.#names.get(key)!);
    }
    return names;
  }

  release(id: string): void {
    const held = this.#texts.get(id)!;
    for (const block of held.blocks) this.#drop(block);
    held.blocks = [];
  }

  /** Reads the next tokens of a text: they take rows. */
  read(id: string, from: number, count: number): void {
    const held = this.#texts.get(id)!;
    expect(this.rows(id).length, `rows of ${id}`).toBe(from);
    for (const token of held.tokens.slice(from, from + count)) {
      let last = held.blocks.at(-1);
      if (last === undefined || last.rows.length === this.#size) {
        expect(this.available, "a block that the plan counts on").toBeGreaterThan(0);
        this.#evict();
        last = { rows: [], users: 0, key: undefined };
        this.#retain(last);
        held.blocks.push(last);
      }
      expect(last.users, "a block that is written has one user").toBe(1);
      last.rows.push(token);
    }
  }

  /** After a run: full blocks become known, and those that are known already are shared. */
  publish(id: string): void {
    const held = this.#texts.get(id)!;
    held.blocks = held.blocks.map((block, at) => {
      if (block.rows.length < this.#size || block.key !== undefined) return block;
      const key = this.#keyOf(held, at + 1);
      const known = this.#known.get(key);
      if (known === undefined) {
        block.key = key;
        this.#known.set(key, block);
        return block;
      }
      this.#retain(known);
      this.#drop(block);
      return known;
    });
  }

  #keyOf({ salt, tokens }: Held, blocks: number): string {
    return `${salt}:${tokens.slice(0, blocks * this.#size).join()}`;
  }

  #retain(block: Block): void {
    if (block.users++ === 0) this.#used++;
  }

  #drop(block: Block): void {
    if (--block.users === 0) this.#used--;
  }

  /** Known blocks without users are room as well: one of them goes where there is no other. */
  #evict(): void {
    const idle = [...this.#known].filter(([, { users }]) => users === 0);
    if (this.#used + idle.length < this.#count) return;
    this.#known.delete(idle[0][0]);
  }
}
