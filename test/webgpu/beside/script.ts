// What one session is asked, at random, with the answers that it gives alone: known before anything is asked of a device.
import type { SessionOptions } from "../../../src/session/options.js";
import type { Tensor } from "../../../src/tensor/tensor.js";
import type { Chance } from "../../state/chance.js";
import { capacity, type CachedModel, type Carried, emptyCaches, floats, said } from "./models.js";

/** When an answer is looked at: at once, or after the session was released; or never, its tensors disposed of. */
export type When = "now" | "late" | "never";

/** A run without a state: what it says, and its caches after it. */
export interface Functional {
  readonly x: readonly number[];
  readonly y: Float32Array;
  readonly after: Carried;
}

/** One thing that is asked. States and saved ones have numbers. */
export type Ask =
  | { readonly ask: "create"; readonly options: SessionOptions }
  | { readonly ask: "state" | "drop"; readonly state: number }
  | {
      readonly ask: "run" | "start";
      readonly state: number;
      readonly x: readonly number[];
      readonly rows: number;
      readonly y: Float32Array;
      readonly when: When;
    }
  | {
      readonly ask: "series";
      readonly state: number;
      readonly xs: readonly (readonly number[])[];
      readonly rows: number;
      readonly ys: readonly Float32Array[];
      readonly when: When;
    }
  | {
      readonly ask: "functional";
      readonly carried: Carried;
      /** Runs one after the other, each fed the presents of the one before. */
      readonly steps: readonly Functional[];
      readonly when: When;
    }
  | { readonly ask: "fork"; readonly state: number; readonly to: number }
  | {
      readonly ask: "save";
      readonly state: number;
      readonly to: number;
      readonly carried: Carried;
      readonly when: When;
    }
  | { readonly ask: "restore"; readonly state: number; readonly from: number }
  | { readonly ask: "set"; readonly state: number; readonly caches: Readonly<Record<string, Tensor>> }
  | { readonly ask: "rewind"; readonly state: number; readonly rows: number }
  | {
      readonly ask: "read";
      readonly state: number;
      readonly cache: string;
      readonly rows: Float32Array;
      readonly count: number;
      readonly when: When;
    }
  | {
      readonly ask: "refuse";
      readonly state: number;
      readonly how: "shape" | "name" | "busy";
      readonly x: readonly number[];
      readonly rows: number;
      readonly y: Float32Array;
    }
  | { readonly ask: "release"; readonly isAwaited: boolean };

/** The first rows of a cache of [1, heads, rows, width]. */
export function firstRows(data: Float32Array, [, heads, rows, width]: readonly number[], count: number): Float32Array {
  const taken = new Float32Array(heads * count * width);
  for (let head = 0; head < heads; head++)
    taken.set(data.subarray(head * rows * width, (head * rows + count) * width), head * count * width);
  return taken;
}

const numbers = (chance: Chance, count: number): number[] =>
  Array.from({ length: count }, () => Math.round(64 * chance.random() - 32) / 16);

/** Caches of some valid rows with anything in them. */
function anyCaches(chance: Chance, { pairs, grows, shape }: CachedModel, rows: number): Carried {
  const dims = shape(grows ? rows : capacity);
  const size = dims.reduce((a, b) => a * b, 1);
  return {
    caches: Object.fromEntries(Object.keys(pairs).map((past) => [past, floats(numbers(chance, size), dims)])),
    rows,
  };
}

const whens = ["now", "now", "late", "late", "never"] as const;

/** Draws what a session is asked until it is released, and knows its answers. */
class Writer {
  readonly asks: Ask[] = [];
  readonly #chance: Chance;
  readonly #model: CachedModel;
  readonly #states = new Map<number, Carried>();
  readonly #saved = new Map<number, Carried>();
  #next = 0;

  constructor(chance: Chance, model: CachedModel) {
    this.#chance = chance;
    this.#model = model;
  }

  async write(count: number): Promise<void> {
    const chance = this.#chance;
    const options: SessionOptions = {
      inPlace: chance.oneOf(["prefer", "prefer", "never"]),
      ...(chance.of(0.4) ? { preferredOutputLocation: "gpu-buffer" } : {}),
    };
    this.asks.push({ ask: "create", options });
    for (let at = 0; at < count; at++) await this.#one();
    this.asks.push({ ask: "release", isAwaited: chance.of(0.5) });
  }

  async #one(): Promise<void> {
    const chance = this.#chance;
    const [model, when] = [this.#model, chance.oneOf(whens)];
    if (this.#states.size === 0 || chance.of(0.08)) {
      const state = this.#next++;
      this.#states.set(state, emptyCaches(model));
      this.asks.push({ ask: "state", state });
      return;
    }
    const state = chance.oneOf([...this.#states.keys()]);
    const carried = this.#states.get(state)!;
    const { caches, rows } = carried;
    const left = capacity - rows;
    const x = numbers(chance, model.rowSize * (1 + chance.below(Math.max(1, Math.min(2, left)))));
    const isFull = x.length / model.rowSize > left;
    const kind = chance.below(16);
    if (kind < 5 && !isFull) {
      const { y, after } = await said(model, carried, x);
      this.#states.set(state, after);
      this.asks.push({ ask: kind < 3 ? "run" : "start", state, x, rows, y, when });
    } else if (kind === 5 && left >= 3) {
      const xs = Array.from({ length: 3 }, () => numbers(chance, model.rowSize));
      const ys: Float32Array[] = [];
      let now = carried;
      for (const each of xs) {
        const { y, after } = await said(model, now, each);
        ys.push(y);
        now = after;
      }
      this.#states.set(state, now);
      this.asks.push({ ask: "series", state, xs, rows, ys, when });
    } else if (kind === 6) {
      const past = anyCaches(chance, model, chance.below(4));
      const steps: Functional[] = [];
      for (let count = 1 + chance.below(3); count > 0; count--) {
        const own = numbers(chance, model.rowSize);
        steps.push({ x: own, ...(await said(model, steps.at(-1)?.after ?? past, own)) });
      }
      this.asks.push({ ask: "functional", carried: past, steps, when });
    } else if (kind === 7 && this.#states.size < 4) {
      const to = this.#next++;
      this.#states.set(to, carried);
      this.asks.push({ ask: "fork", state, to });
    } else if (kind === 8) {
      const to = this.#next++;
      this.#saved.set(to, carried);
      this.asks.push({ ask: "save", state, to, carried, when });
    } else if (kind === 9 && this.#saved.size > 0) {
      const from = chance.oneOf([...this.#saved.keys()]);
      this.#states.set(state, this.#saved.get(from)!);
      this.asks.push({ ask: "restore", state, from });
    } else if (kind === 10) {
      const set = anyCaches(chance, model, model.grows ? 1 + chance.below(3) : rows);
      this.#states.set(state, set);
      this.asks.push({ ask: "set", state, caches: set.caches });
    } else if (kind === 11 && rows > 0) {
      const to = chance.below(rows + 1);
      this.#states.set(state, { caches: model.grows ? sliced(caches, to) : caches, rows: to });
      this.asks.push({ ask: "rewind", state, rows: to });
    } else if (kind === 12) {
      const cache = chance.oneOf(Object.keys(caches));
      const { data, dims } = caches[cache];
      const expected = firstRows(data as Float32Array, dims, dims[2]);
      this.asks.push({ ask: "read", state, cache, rows: expected, count: dims[2], when });
    } else if (kind <= 14) {
      if (isFull) return;
      const how = chance.oneOf(["shape", "name", "busy"] as const);
      const { y, after } = await said(model, carried, x);
      if (how === "busy") this.#states.set(state, after);
      this.asks.push({ ask: "refuse", state, how, x, rows, y });
    } else if (this.#states.size > 1) {
      this.#states.delete(state);
      this.asks.push({ ask: "drop", state });
    }
  }
}

const sliced = (caches: Carried["caches"], rows: number): Carried["caches"] =>
  Object.fromEntries(
    Object.entries(caches).map(([name, { data, dims }]) => [
      name,
      floats(firstRows(data as Float32Array, dims, rows), dims.with(2, rows)),
    ]),
  );

/** What is asked of one session after another, each released before the next is made. */
export async function writeScript(chance: Chance, model: CachedModel): Promise<readonly Ask[]> {
  const asks: Ask[] = [];
  for (let sessions = 1 + chance.below(2); sessions > 0; sessions--) {
    const writer = new Writer(chance, model);
    await writer.write(3 + chance.below(7));
    asks.push(...writer.asks);
  }
  return asks;
}
