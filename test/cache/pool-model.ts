// A pool of blocks with real bytes beside a simple model of it: lists of rows that share nothing. After every operation both say the same.
import { expect } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { BlockPool } from "../../src/cache/block-pool.js";
import type { PrefixHash } from "../../src/cache/prefix-index.js";
import type { Sequence } from "../../src/cache/sequence.js";
import { seededRandom } from "../../src/graph/call.js";

interface Modelled {
  readonly sequence: Sequence;
  /** What the rows must hold. */
  rows: number[];
  /** The tokens of the rows at the beginning. */
  tokens: number[];
  /** The position of each row's token, and of the next one. */
  positions: number[];
  next: number;
}

/** True if every row's token is known and none is gone. */
const isWhole = ({ rows, tokens, next }: Modelled): boolean => tokens.length === rows.length && next === rows.length;

/** Rows after another: each one's position follows. */
function goOn(target: Modelled, values: readonly number[]): void {
  for (const value of values) {
    target.rows.push(value);
    target.positions.push(target.next++);
  }
}

/** Keeps some rows: the others' positions stay what they were, and so does the next. */
function keepRows(target: Modelled, stays: (row: number) => boolean): void {
  target.rows = target.rows.filter((_, row) => stays(row));
  target.positions = target.positions.filter((_, row) => stays(row));
}

/** A row's bytes depend on all tokens up to it and on its position, as keys and values do. */
function rowsAfter(before: readonly number[], tokens: readonly number[], position: number): number[] {
  let last = before.at(-1) ?? 7;
  return tokens.map((token, at) => (last = (Math.imul(last, 31) + token + 1 + 97 * (position + at)) | 0));
}

/** How a run of random operations went. */
export interface PoolRun {
  readonly operations: Record<string, number>;
  readonly refused: number;
  readonly copies: number;
  readonly sharedRows: number;
}

/** Random operations on a pool, checked after each. */
export function runPool(
  seed: number,
  operations: number,
  sizes: { readonly blocks: number; readonly blockSize: number; readonly hash?: PrefixHash },
): PoolRun {
  const random = seededRandom(seed);
  const whole = (below: number): number => Math.floor(random() * below);
  const { blocks, blockSize, hash } = sizes;
  const bytes = new Int32Array(blocks * blockSize);
  const pool = new BlockPool({
    blocks,
    blockSize,
    ...(hash === undefined ? {} : { hash }),
    copy: (from, to, rows) => bytes.copyWithin(to * blockSize, from * blockSize, from * blockSize + rows),
  });
  const live: Modelled[] = [];
  /** Texts that were there once: new ones begin like them. */
  const texts: number[][] = [];
  const done: Record<string, number> = {};
  let refused = 0;
  let sharedRows = 0;
  let fresh = 1 << 20;

  const tokens = (count: number): number[] => Array.from({ length: count }, () => whole(2));
  const pick = (): Modelled => live[whole(live.length)];
  const write = (slots: readonly number[], values: readonly number[]): void =>
    slots.forEach((slot, at) => (bytes[slot] = values[at]));
  const append = (which: readonly Modelled[]): void => {
    const entries = which.map((target) => ({ target, added: tokens(whole(3 * blockSize)) }));
    const slots = pool.append(entries.map(({ target, added }) => ({ sequence: target.sequence, tokens: added })));
    entries.forEach(({ target, added }, at) => {
      const values = rowsAfter(target.rows, added, target.next);
      write(slots[at], values);
      if (isWhole(target)) target.tokens.push(...added);
      goOn(target, values);
    });
    for (const { target } of entries) target.sequence.commit();
  };
  const acts: Record<string, () => void> = {
    add() {
      if (live.length < 12) live.push({ sequence: pool.add(), rows: [], tokens: [], positions: [], next: 0 });
    },
    append: () => append([pick()]),
    appendMany: () => append(live.filter(() => random() < 0.5)),
    appendUnknown() {
      const target = pick();
      const values = Array.from({ length: 1 + whole(blockSize) }, () => fresh++);
      write(target.sequence.append(values.length), values);
      goOn(target, values);
      target.sequence.commit();
    },
    failedRun() {
      const target = pick();
      // Rows were reserved and half of them written when the run failed.
      const slots = target.sequence.append(tokens(1 + whole(2 * blockSize)));
      write(
        slots.slice(0, slots.length / 2),
        slots.map(() => fresh++),
      );
      target.sequence.truncate(target.rows.length, target.next);
    },
    fork() {
      if (live.length >= 12) return;
      const { sequence, rows, tokens: known, positions, next } = pick();
      live.push({ sequence: sequence.fork(), rows: [...rows], tokens: [...known], positions: [...positions], next });
    },
    truncate() {
      const target = pick();
      const length = whole(target.rows.length + 1);
      target.sequence.truncate(length);
      if (length < target.rows.length) target.next = (target.positions[length - 1] ?? -1) + 1;
      target.rows.length = target.positions.length = length;
      target.tokens.length = Math.min(length, target.tokens.length);
    },
    share() {
      const target = pick();
      if (!isWhole(target)) {
        expect(() => target.sequence.share(target.tokens)).toThrow(/not the beginning/);
        return;
      }
      const candidates = [...texts, ...live.map(({ tokens: known }) => known)].filter((text) =>
        target.tokens.every((token, at) => text[at] === token),
      );
      const wanted = candidates[whole(candidates.length)] ?? target.tokens;
      const before = target.rows.length;
      const length = target.sequence.share(wanted);
      expect(length).toBeGreaterThanOrEqual(before);
      if (length > before) sharedRows += length - before;
      target.tokens = wanted.slice(0, Math.max(length, before));
      if (length === before) return;
      target.rows = rowsAfter([], target.tokens, 0);
      target.positions = target.rows.map((_, row) => row);
      target.next = length;
    },
    overwrite() {
      const target = pick();
      if (target.rows.length === 0) return;
      const start = whole(target.rows.length);
      const count = 1 + whole(Math.min(blockSize, target.rows.length - start));
      const values = Array.from({ length: count }, () => fresh++);
      write(target.sequence.overwrite(start, count), values);
      target.rows.splice(start, count, ...values);
      target.tokens.length = Math.min(target.tokens.length, start);
    },
    dropColumns() {
      const target = pick();
      const columns = target.sequence.table.map((_, at) => at).filter(() => random() < 0.2);
      target.sequence.dropColumns(columns);
      const gone = (row: number): boolean => columns.includes(Math.floor(row / blockSize));
      target.tokens.length = Math.min(target.tokens.length, Math.min(...columns, Infinity) * blockSize);
      keepRows(target, (row) => !gone(row));
    },
    keep() {
      const target = pick();
      const stays = target.rows.map(() => random() < 0.7);
      const rows = stays.flatMap((kept, row) => (kept ? [row] : []));
      const { sequence } = target;
      sequence.keep(rows, (sources) => {
        const values = sequence.slots(0, sequence.table.length * blockSize).map((slot) => bytes[slot]);
        write(
          sequence.slots(0, sources.length),
          sources.map((source) => values[source]),
        );
      });
      keepRows(target, (row) => stays[row]);
      const first = rows.findIndex((row, at) => row !== at);
      target.tokens.length = Math.min(target.tokens.length, first < 0 ? rows.length : first);
    },
    release() {
      const [target] = live.splice(whole(live.length), 1);
      if (target.tokens.length > 0) texts.push(target.tokens);
      if (texts.length > 20) texts.splice(whole(texts.length), 1);
      target.sequence.release();
      expect(() => target.sequence.fork()).toThrow(/was released/);
      expect(() => target.sequence.append([1])).toThrow(/was released/);
    },
    forgetPrefixes() {
      if (random() < 0.05) pool.forgetPrefixes();
    },
  };
  const names = Object.keys(acts);
  const check = (what: string): void => {
    const references = new Int32Array(blocks);
    for (const { sequence, rows, tokens: known, positions, next } of live) {
      if (sequence.length !== rows.length || sequence.tokens.length !== known.length)
        expect.fail(`${what}: "${sequence.name}" has ${sequence.length} rows, the model ${rows.length}`);
      if (sequence.position !== next || positions.some((position, row) => sequence.positionOf(row) !== position))
        expect.fail(`${what}: "${sequence.name}" goes on at ${sequence.position}, the model at ${next}`);
      for (const block of sequence.table) references[block]++;
      if (new Set(sequence.table).size !== sequence.table.length) expect.fail(`${what}: a block twice in one table`);
      for (let row = 0; row < rows.length; row++) {
        const slot = sequence.table[Math.floor(row / blockSize)] * blockSize + (row % blockSize);
        if (bytes[slot] !== rows[row]) expect.fail(`${what}: row ${row} of "${sequence.name}" changed`);
      }
    }
    const { used, kept, free } = pool.statistics;
    const described = pool.describe();
    described.forEach((block, at) => {
      if (block.references !== references[at] || (block.state === "used") !== references[at] > 0)
        expect.fail(`${what}: block ${at} has ${block.references} references, the tables ${references[at]}`);
    });
    if (used + kept + free !== blocks || used !== references.filter((count) => count > 0).length)
      expect.fail(`${what}: ${used} used, ${kept} kept and ${free} free of ${blocks} blocks: a leak`);
  };
  for (let at = 0; at < operations; at++) {
    const name = live.length === 0 ? "add" : names[whole(names.length)];
    done[name] = (done[name] ?? 0) + 1;
    try {
      acts[name]();
    } catch (error) {
      if (!(error instanceof InsituError) || error.code !== "out-of-memory") throw error;
      expect(error.message).toMatch(/is full: .* are left; .*holds/);
      refused++;
    }
    check(`seed ${seed}, operation ${at}, ${name}`);
  }
  for (const { sequence } of live) sequence.release();
  pool.forgetPrefixes();
  expect(pool.statistics, `seed ${seed}`).toMatchObject({ used: 0, kept: 0, free: blocks });
  return { operations: done, refused, copies: pool.statistics.copies, sharedRows };
}
