/**
 * Weights that several sessions on one set of threads have in common, since they come from the same places of the same file: the first session fills
 * them, those that follow wait for that, and they are given back with the last one.
 */
import type { SharedBytes } from "../backend.js";
import type { WasmMemories } from "./memories.js";
import { SessionMemory } from "./session-memory.js";

/** Weights in the memories, and who has them. */
interface Held {
  readonly memory: SessionMemory;
  readonly pieces: readonly Uint8Array[];
  readonly bytes: number;
  /** Whether the first session read all of them, once that is known. */
  readonly filled: Promise<boolean>;
  readonly settle: (isFilled: boolean) => void;
  isSettled: boolean;
  sessions: number;
}

/** Those of one set of memories, by where they come from. */
export class SharedWeights {
  readonly #memories: WasmMemories;
  readonly #held = new Map<string, Held>();

  constructor(memories: WasmMemories) {
    this.#memories = memories;
  }

  /** What one session takes of them. */
  session(): SessionWeights {
    return new SessionWeights(this.#take, this.#leave);
  }

  readonly #take: TakeWeights = async (key, sizes, mayWait) => {
    for (;;) {
      const before = this.#held.get(key);
      if (before === undefined) return [this.#make(key, sizes), false];
      if (!before.isSettled && !mayWait) return undefined;
      before.sessions++;
      if (await before.filled) return [before, true];
      this.#leave(before);
    }
  };

  #make(key: string, sizes: readonly number[]): Held {
    const memory = new SessionMemory(this.#memories);
    let resolve: (isFilled: boolean) => void = () => undefined;
    const filled = new Promise<boolean>((done) => void (resolve = done));
    const held: Held = {
      memory,
      pieces: memory.allocateBytes(sizes),
      bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
      filled,
      settle: (isFilled) => {
        held.isSettled = true;
        if (!isFilled) this.#forget(held);
        resolve(isFilled);
      },
      isSettled: false,
      sessions: 1,
    };
    this.#held.set(key, held);
    return held;
  }

  #forget(held: Held): void {
    for (const [key, each] of this.#held) if (each === held) this.#held.delete(key);
  }

  readonly #leave = (held: Held): void => {
    if (--held.sessions > 0) return;
    this.#forget(held);
    held.memory.release();
  };
}

/** Undefined for what is on its way, where the one who asks may not wait. */
type TakeWeights = (
  key: string,
  sizes: readonly number[],
  mayWait: boolean,
) => Promise<readonly [held: Held, isFilled: boolean] | undefined>;

/** What one session has of them. */
class SessionWeights {
  readonly #take: TakeWeights;
  readonly #leave: (held: Held) => void;
  readonly #taken: Held[] = [];

  constructor(take: TakeWeights, leave: (held: Held) => void) {
    this.#take = take;
    this.#leave = leave;
  }

  async take(key: string, sizes: readonly number[]): Promise<SharedBytes | undefined> {
    // Two sessions that fill one file each must not wait for the other's.
    const taken = await this.#take(
      key,
      sizes,
      this.#taken.every(({ isSettled }) => isSettled),
    );
    if (taken === undefined) return undefined;
    const [held, isFilled] = taken;
    this.#taken.push(held);
    return { pieces: held.pieces, isFilled, settle: isFilled ? () => undefined : held.settle };
  }

  describe(): readonly string[] {
    return this.#taken
      .filter(({ sessions }) => sessions > 1)
      .map(({ bytes, sessions }) => `weights: ${bytes} bytes of one file are shared by ${sessions} sessions`);
  }

  release(): void {
    for (const held of this.#taken.splice(0)) this.#leave(held);
  }
}
