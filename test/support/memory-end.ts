// Puts buffers of the WASM backend flush against the end of their memory, one at a time: whatever reaches past such a buffer traps.
import { vi } from "vitest";
import { WasmArena } from "../../src/backends/wasm/arena.js";
import { WasmMemory } from "../../src/backends/wasm/memory.js";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, node, value } from "../../src/onnx/build.js";
import { writeModel } from "../../src/onnx/write.js";
import type { SessionOptions } from "../../src/session/options.js";

/** A buffer that is being taken: for feeds, caches, weights, jobs, temporaries, or the arena. */
export interface Taking {
  readonly bytes: number;
  readonly isArena: boolean;
  /** How many were taken before it. */
  readonly number: number;
}

/** A memory of sessions with these options has a size that nobody else asks for. */
export const atTheEnd: SessionOptions = { backend: "wasm", wasm: { memoryBytes: 2 ** 26 - 2 ** 16 } };

/** Starts the threads of such sessions, which have buffers of their own. */
export async function prepare(options: SessionOptions): Promise<void> {
  const model = buildModel({
    opset: 21,
    inputs: [value("x", "float32", [1])],
    outputs: [value("y")],
    nodes: [node("Neg", ["x"], ["y"])],
  });
  await (await InferenceSession.create(writeModel(model), options)).release();
}

/** A method, to be called for any object. */
function methodOf<T extends object, N extends keyof T>(prototype: T, name: N): T[N] {
  return Object.getOwnPropertyDescriptor(prototype, name)!.value as T[N];
}

const page = 2 ** 16;

/** Memories are grown to this at first, so that what is not at their end has room below it, and to this at most. */
const room = 2 ** 26 - page;
const most = 2 ** 30;

/** The ends of memories, until `restore`. */
export class MemoryEnd {
  /** Buffers taken, and how many of them were placed at an end. */
  taken = 0;
  placed = 0;
  #choose: (taking: Taking) => boolean = () => false;
  /** What lies at the end of each memory, or lay there until it grew. */
  readonly #held = new Map<WasmMemory, Map<number, number>>();
  readonly #spies: { mockRestore(): void }[];

  /** Of the memories of `atTheEnd`, or of all that there are. */
  constructor(isOurs = ({ mostBytes }: WasmMemory): boolean => mostBytes === atTheEnd.wasm?.memoryBytes) {
    let isArena = false;
    const take = methodOf(WasmMemory.prototype, "take");
    const give = methodOf(WasmMemory.prototype, "give");
    const at = methodOf(WasmArena.prototype, "at");
    const [ends, held] = [this, this.#held];
    this.#spies = [
      vi.spyOn(WasmArena.prototype, "at").mockImplementation(function (this: WasmArena, seat) {
        isArena = true;
        const stretch = at.call(this, seat);
        isArena = false;
        return stretch;
      }),
      vi.spyOn(WasmMemory.prototype, "take").mockImplementation(function (this: WasmMemory, bytes) {
        const below = (): number => take.call(this, bytes);
        return isOurs(this) ? ends.#take(this, bytes, isArena, below) : below();
      }),
      vi.spyOn(WasmMemory.prototype, "give").mockImplementation(function (this: WasmMemory, address, bytes) {
        if (held.get(this)?.delete(address) !== true) give.call(this, address, bytes);
      }),
    ];
  }

  /** From now on, counted anew, buffers that are chosen go to the end of their memory, where one is until the next. */
  place(choose: (taking: Taking) => boolean): void {
    this.taken = this.placed = 0;
    this.#choose = choose;
  }

  restore(): void {
    for (const spy of this.#spies) spy.mockRestore();
  }

  #take(memory: WasmMemory, bytes: number, isArena: boolean, below: () => number): number {
    const held = this.#held.get(memory) ?? new Map<number, number>();
    this.#held.set(memory, held);
    const grown = memory.memory.buffer.byteLength;
    const wanted = Math.min(room, memory.mostBytes);
    if (grown < wanted) memory.memory.grow((wanted - grown) / page);
    const number = this.taken++;
    if (bytes < room / 2 && this.#choose({ bytes, isArena, number }) && this.#clear(memory, held, bytes)) {
      const end = memory.memory.buffer.byteLength;
      // As near to the end as elements allow: an arena holds those of any type, a buffer a whole number of its own.
      const unit = isArena || bytes === 0 ? 8 : Math.min(64, bytes & -bytes);
      const address = Math.floor((end - bytes) / unit) * unit;
      held.set(address, bytes);
      this.placed++;
      return address;
    }
    for (;;) {
      const address = below();
      const isOver = [...held].some(([start, size]) => address < start + size && start < address + bytes);
      if (!isOver) return address; // what is over stays taken: the next one lies behind it
    }
  }

  /** Makes room for bytes at the end: what is there stays, and the memory grows. False where it cannot. */
  #clear({ memory, mostBytes }: WasmMemory, held: ReadonlyMap<number, number>, bytes: number): boolean {
    const end = memory.buffer.byteLength;
    if ([...held].every(([address, size]) => address + size < end - page)) return true;
    const pages = Math.ceil(bytes / page) + 1;
    if (end + pages * page > Math.min(most, mostBytes)) return false;
    memory.grow(pages);
    return true;
  }
}
