/**
 * One shared memory of the WASM backend: weights, caches, arena, jobs. Buffers are taken and given back here; their addresses
 * never change. Growing keeps every view valid, since the memory is shared. Which memory something goes to is decided elsewhere.
 */
import { InsituError } from "../../base/error.js";
import { arrayConstructorOf, byteLengthOf, type ElementType, storageLengthOf } from "../../tensor/element-type.js";
import { elementCount, View } from "../../tensor/view.js";
import { Unavailable } from "../unavailable.js";

const pageBytes = 65_536;

/** The most bytes of one memory: what 32 bits address. */
export const mostMemoryBytes: number = 65_536 * pageBytes;

/** Engines that have little address space refuse to set aside the most there can be: less is tried, but not less than this. */
const leastMaximum = 2 ** 28;

/** Every buffer starts at a multiple of this. */
const alignment = 64;

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

interface Region {
  address: number;
  bytes: number;
}

/** One WebAssembly.Memory with an allocator that keeps addresses stable. */
export class WasmMemory {
  readonly memory: WebAssembly.Memory;
  /** How large it may get. */
  readonly mostBytes: number;
  /** Free regions in order of address, never two side by side. */
  readonly #free: Region[] = [];
  /** Every buffer of the memory that was given out: growing makes new ones, and the old ones stay valid. */
  readonly #buffers = new WeakSet<ArrayBufferLike>();
  /** The last of them, with arrays over all of it: asked for every job. */
  #whole: { readonly buffer: ArrayBufferLike; readonly words: Int32Array; readonly numbers: Float32Array } | undefined;
  #end: number;
  /** What lies from here on was never given out: the engine's zeros, for which the system has taken no memory yet. */
  #fresh: number;
  #used = 0;
  /** Buffers that callers may hold arrays of, by address; with their bytes once they were given back. */
  readonly #lent = new Map<number, { bytes?: number }>();
  readonly #collected = new FinalizationRegistry<number>((address) => this.#returned(address));

  /**
   * `reserved` bytes from address 0 on belong to the kernels; the memory never has more than `most`. Address space is set aside for all
   * of it, memory for nothing yet. Throws `out-of-memory` where the engine refuses.
   */
  constructor(reserved: number, most: number = mostMemoryBytes) {
    for (let maximum = Math.floor(most / pageBytes); ; maximum >>= 1) {
      try {
        this.memory = new WebAssembly.Memory({ initial: 1, maximum, shared: true });
        this.mostBytes = maximum * pageBytes;
        break;
      } catch (cause) {
        if (maximum * pageBytes > leastMaximum) continue;
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new Unavailable(
          "backend",
          "out-of-memory",
          `a shared WebAssembly memory of up to ${maximum * pageBytes} bytes is not available here (${reason}): the process may have too little address space (ulimit -v; Node asks for less with --disable-wasm-trap-handler), or the engine cannot share one; use backend: "reference", which is slow`,
          { cause },
        );
      }
    }
    this.#end = aligned(reserved);
    this.#fresh = this.#end;
  }

  /** The memory's bytes. The engine may put a new object in the place of the last one at any time after growing. */
  get buffer(): ArrayBufferLike {
    return this.whole.buffer;
  }

  /** The same, as the numbers that jobs are made of. */
  get whole(): { readonly buffer: ArrayBufferLike; readonly words: Int32Array; readonly numbers: Float32Array } {
    const { buffer } = this.memory;
    if (this.#whole?.buffer !== buffer) {
      this.#buffers.add(buffer);
      this.#whole = { buffer, words: new Int32Array(buffer), numbers: new Float32Array(buffer) };
    }
    return this.#whole!;
  }

  /** Bytes in use. */
  get usedBytes(): number {
    return this.#used;
  }

  /** True if `count` buffers of `bytes` each can be taken, as far as addresses go. */
  fits(bytes: number, count = 1): boolean {
    const size = Math.max(alignment, aligned(bytes));
    let found = 0;
    let tail = this.mostBytes - this.#end;
    for (const region of this.#free) {
      if (region.address + region.bytes === this.#end) tail += region.bytes;
      else found += Math.floor(region.bytes / size);
    }
    return found + Math.floor(tail / size) >= count;
  }

  /** Takes `bytes`; the contents are what was there before. */
  take(bytes: number): number {
    const size = Math.max(alignment, aligned(bytes));
    const index = this.#free.findIndex((region) => region.bytes >= size);
    if (index >= 0) {
      const region = this.#free[index];
      const { address } = region;
      region.address += size;
      region.bytes -= size;
      if (region.bytes === 0) this.#free.splice(index, 1);
      this.#used += size;
      return address;
    }
    // The last free region may reach up to the end: growing extends it.
    const last = this.#free.at(-1);
    const address = last !== undefined && last.address + last.bytes === this.#end ? last.address : this.#end;
    this.#grow(address + size);
    if (address !== this.#end) this.#free.pop();
    this.#end = address + size;
    this.#fresh = Math.max(this.#fresh, this.#end);
    this.#used += size;
    return address;
  }

  /** Takes `bytes` of zeros. What was never given out is not touched: a cache takes the system's memory as it is filled. */
  takeZeroed(bytes: number): number {
    const fresh = this.#fresh;
    const address = this.take(bytes);
    const used = Math.min(address + bytes, fresh) - address;
    if (used > 0) new Uint8Array(this.buffer, address, used).fill(0);
    return address;
  }

  /** Gives a buffer back. `bytes` is what it was taken with. */
  give(address: number, bytes: number): void {
    const lent = this.#lent.get(address);
    if (lent !== undefined) {
      lent.bytes = bytes;
      return;
    }
    const size = Math.max(alignment, aligned(bytes));
    this.#used -= size;
    let at = this.#free.findIndex((region) => region.address > address);
    if (at < 0) at = this.#free.length;
    this.#free.splice(at, 0, { address, bytes: size });
    this.#join(at);
    if (at > 0) this.#join(at - 1);
  }

  /**
   * A whole buffer for a caller to keep. Its arrays lie in an object of their own for the memory's bytes: `give` waits until that object is
   * collected, and with it every array that was made of it. Where engines allow no such object, `give` waits for ever.
   */
  lend(view: View): View {
    const { type, shape } = view;
    const address = this.addressOf(view);
    if (address === undefined || type === "string") return view;
    this.#lent.set(address, {});
    let own: ArrayBufferLike;
    try {
      own = structuredClone(this.buffer);
    } catch {
      return view;
    }
    this.#buffers.add(own);
    this.#collected.register(own, address);
    const length = storageLengthOf(type, elementCount(shape));
    return new View(type, shape, new (arrayConstructorOf(type))(own, address, length));
  }

  /** Nobody holds an array of a buffer any more. */
  #returned(address: number): void {
    const bytes = this.#lent.get(address)?.bytes;
    this.#lent.delete(address);
    if (bytes !== undefined) this.give(address, bytes);
  }

  #join(at: number): void {
    const [region, next] = [this.#free[at], this.#free[at + 1]];
    if (next === undefined || region.address + region.bytes !== next.address) return;
    region.bytes += next.bytes;
    this.#free.splice(at + 1, 1);
  }

  #grow(end: number): void {
    const missing = Math.ceil((end - this.memory.buffer.byteLength) / pageBytes);
    if (missing <= 0) return;
    if (end > this.mostBytes) {
      throw new InsituError(
        "out-of-memory",
        `${end} bytes are needed in one WebAssembly memory, ${this.mostBytes} are the most there can be; release sessions or states, or make them smaller`,
      );
    }
    try {
      this.memory.grow(missing);
    } catch (cause) {
      throw new InsituError(
        "out-of-memory",
        `the engine refused to let a WebAssembly memory grow from ${this.memory.buffer.byteLength} to ${end} bytes: the machine has no more to give; release sessions or states, or make them smaller`,
        { cause },
      );
    }
  }

  /** A view of a buffer at an address. */
  viewAt(address: number, type: Exclude<ElementType, "string">, shape: readonly number[]): View {
    const length = storageLengthOf(type, elementCount(shape));
    return new View(type, shape, new (arrayConstructorOf(type))(this.buffer, address, length));
  }

  /** True if a view lies here. */
  holds({ data }: View): boolean {
    return !Array.isArray(data) && this.#has(data.buffer);
  }

  #has(buffer: ArrayBufferLike): boolean {
    return buffer === this.#whole?.buffer || this.#buffers.has(buffer);
  }

  /** The address of a view's first element, or undefined where it lies elsewhere. */
  addressOf(view: View): number | undefined {
    const { data } = view;
    if (Array.isArray(data) || !this.#has(data.buffer)) return undefined;
    return data.byteOffset + byteLengthOf(view.type, view.offset);
  }
}
