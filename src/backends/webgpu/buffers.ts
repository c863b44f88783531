/** Device memory: buffers of whole words, and uploads to them. Knows no program. */
import { InsituError } from "../../base/error.js";
import { cloneView } from "../../tensor/copy.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage, View } from "../../tensor/view.js";
import { piecesFor } from "../../webgpu-kernels/shader-part.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Pieces } from "../../webgpu-kernels/webgpu-kernel.js";
import type { Common } from "../common.js";
import { type MadeBuffers, usage } from "./device.js";
import type { DeviceShare } from "./device-share.js";

/** A buffer on the device. */
export class DeviceBuffer {
  /** One; several of `pieceBytes`, the last one shorter, for a weight that is larger than a binding. */
  readonly pieces: readonly GPUBuffer[];
  readonly bytes: number;
  /** False once the device told that it had no memory for it, or it was let go of. */
  isOpen = true;
  /** Whether the device had memory for it, once that is known. */
  readonly isThere: Promise<boolean>;
  /** Stands for the buffer where kernels look at operands: it has no bytes, but tells buffers apart. */
  readonly token: Uint8Array = new Uint8Array(0);

  /** How it lies, for kernels; undefined where it is one. */
  readonly inPieces: Pieces | undefined;
  /** What other sessions have of it too. */
  readonly common: Common<MadeBuffers> | undefined;

  constructor(
    pieces: readonly GPUBuffer[],
    bytes: number,
    isThere: Promise<boolean> = Promise.resolve(true),
    inPieces?: Pieces,
    common?: Common<MadeBuffers>,
  ) {
    this.pieces = pieces;
    this.inPieces = inPieces;
    this.bytes = bytes;
    this.isThere = isThere;
    this.common = common;
  }

  /** The buffer itself, where it is one. */
  get gpu(): GPUBuffer {
    if (this.pieces.length !== 1)
      throw new InsituError("internal", `a buffer of ${this.pieces.length} pieces was taken for one`);
    return this.pieces[0];
  }
}

/** True for a buffer that is there and has so many bytes. */
export const holds = (buffer: DeviceBuffer | undefined, bytes: number): buffer is DeviceBuffer =>
  buffer !== undefined && buffer.isOpen && buffer.bytes >= bytes;

export type DevicePlace = Placed<DeviceBuffer>;

export const isDevicePlace = (place: Placed): place is DevicePlace => place.buffer instanceof DeviceBuffer;

/** A place that must be on the device. */
export function devicePlace(place: Placed): DevicePlace {
  if (isDevicePlace(place)) return place;
  throw new InsituError("internal", `${place} was taken for one on the device`);
}

/** Bytes as buffers and copies count them. */
export const wholeWords = (bytes: number): number => Math.ceil(bytes / 4) * 4;

const storage = usage.storage | usage.copySource | usage.copyTarget;

/** Bindings beside a weight in pieces that kernels need. */
const otherBindings = 3;

const modelWayOut = "take a model of fewer bits a weight or a smaller one, or use another backend";

/**
 * The buffers of one session. One is destroyed when it is let go of: what was submitted before still has it, what is submitted later would be
 * refused. So whoever lets go of one does it in the session's order, where nothing is recorded that is not submitted.
 */
export class DeviceMemory {
  readonly device: DeviceShare;
  readonly #open = new Set<DeviceBuffer>();
  #bytes = 0;
  /** Allocations whose outcome the device has still to tell. */
  #pending: Promise<void>[] = [];
  #released = false;

  /** Bytes of one binding at most. */
  readonly #mostBytes: number;

  constructor(device: DeviceShare) {
    this.device = device;
    const { maxBufferSize, maxStorageBufferBindingSize } = device.limits;
    this.#mostBytes = Math.min(maxBufferSize, maxStorageBufferBindingSize);
  }

  get byteLength(): number {
    return this.#bytes;
  }

  /** Bytes that other sessions have too. */
  get sharedBytes(): number {
    const shared = [...this.#open].filter(({ common }) => common !== undefined && common.sessions > 1);
    return shared.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Bytes of the pieces that weights lie in where they are larger. */
  get pieceBytes(): number {
    return Math.floor(this.#mostBytes / 256) * 256;
  }

  /** How a weight of so many bytes lies; undefined where one buffer holds it. */
  piecesOf(bytes: number): Pieces | undefined {
    return piecesFor(bytes, this.#mostBytes);
  }

  /** A zeroed buffer that shaders read and write. Where there is no memory for it, `settle` tells. */
  allocate(bytes: number, label: string, wayOut = "use another backend"): DeviceBuffer {
    if (bytes > this.#mostBytes)
      throw new InsituError(
        "out-of-memory",
        `${label}: ${bytes} bytes are needed, and one buffer of ${this.device.description} holds ${this.#mostBytes}; ${wayOut}`,
      );
    return this.create(bytes, label, storage);
  }

  /** A buffer for a weight, in pieces where it is larger than a binding; with a key, one that other sessions on the device have by the same key. */
  allocateWeight(bytes: number, label: string, key?: string): DeviceBuffer {
    const pieces = this.piecesOf(bytes);
    const sizes = Array.from({ length: pieces?.count ?? 1 }, (_, at) =>
      pieces === undefined ? bytes : Math.min(pieces.bytes, bytes - at * pieces.bytes),
    );
    return this.#create(sizes, label, storage, pieces, key);
  }

  /** A buffer for other uses; mapped from the start where it is asked for. */
  create(bytes: number, label: string, uses: number, isMapped = false): DeviceBuffer {
    return this.#create([bytes], label, uses, undefined, undefined, isMapped);
  }

  #create(
    parts: readonly number[],
    label: string,
    uses: number,
    inPieces?: Pieces,
    key?: string,
    mappedAtCreation = false,
  ): DeviceBuffer {
    const sizes = parts.map((bytes) => Math.max(16, wholeWords(bytes)));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (this.#released)
      throw new InsituError("released", `${label}: the session was released, and its memory with it; create a new one`);
    const what = `${label}: ${total} bytes beside ${this.#bytes} that the session has on ${this.device.description}`;
    const { common: commons } = this.device.shared;
    const known = key === undefined ? undefined : commons.get(key);
    const made =
      known?.contents ??
      this.device.attempt(what, (gpu) =>
        sizes.map((size) => gpu.createBuffer({ label, size, usage: uses, mappedAtCreation })),
      );
    if (known !== undefined) known.sessions++;
    const common = known ?? (key === undefined ? undefined : commons.add(key, made, destroy));
    const { result, settled } = made;
    const isThere = settled.then(
      () => true,
      () => false,
    );
    const buffer = new DeviceBuffer(result, total, isThere, inPieces, common);
    // What the device has no memory for is nobody's: who asks for it again asks the device again.
    const outcome = settled.catch((error: unknown) => {
      common?.forget();
      this.free(buffer);
      throw error;
    });
    outcome.catch(() => undefined);
    this.#open.add(buffer);
    this.#bytes += total;
    this.#pending.push(outcome);
    return buffer;
  }

  /**
   * Rejects for weights that the device cannot hold: one that is of more pieces than a shader binds, or more in all than there is memory for,
   * which is asked for as a trial and given back. Those that other sessions have there are counted by them.
   */
  async checkWeights<W extends { readonly name: string; readonly bytes: number }>(
    weights: readonly W[],
    isThere: (weight: W) => boolean,
  ): Promise<void> {
    const { description, limits } = this.device;
    const { maxStorageBuffersPerShaderStage: most } = limits;
    for (const { name, bytes } of weights) {
      const count = this.piecesOf(bytes)?.count ?? 1;
      if (count + otherBindings > most)
        throw new InsituError(
          "out-of-memory",
          `weight "${name}": ${bytes} bytes are ${count} pieces of the ${this.pieceBytes} that one binding of ${description} holds, and a shader binds ${most} in all; ${modelWayOut}`,
        );
    }
    const total = weights.reduce((sum, weight) => (isThere(weight) ? sum : sum + weight.bytes), 0);
    // What a program plays the GPU with is the host's own memory, which the session has counted.
    if (total < keeping.triedBytes || this.device.isSoftware) return;
    const tried: DeviceBuffer[] = [];
    try {
      for (let left = total; left > 0; left -= this.pieceBytes)
        tried.push(this.create(Math.min(left, this.pieceBytes), `weights of ${total} bytes in all`, storage));
      await this.settle();
    } catch (error) {
      if (!(error instanceof InsituError) || error.code !== "out-of-memory") throw error;
      throw new InsituError("out-of-memory", `${error.message}; ${modelWayOut}`, { cause: error });
    } finally {
      for (const buffer of tried) this.free(buffer);
    }
  }

  /** Waits for the outcome of allocations so far; rejects where one failed. */
  async settle(): Promise<void> {
    const pending = this.#pending;
    if (pending.length === 0) return;
    this.#pending = [];
    await Promise.all(pending);
  }

  /** The same memory as another buffer: what was bound to the old one is not taken for bound to it. */
  renewed(buffer: DeviceBuffer): DeviceBuffer {
    const other = new DeviceBuffer(buffer.pieces, buffer.bytes, buffer.isThere, buffer.inPieces);
    this.#open.delete(buffer);
    this.#open.add(other);
    buffer.isOpen = false;
    return other;
  }

  /** True once all buffers were let go of. */
  get isReleased(): boolean {
    return this.#released;
  }

  free(buffer: DeviceBuffer): void {
    if (!this.#open.delete(buffer)) return;
    this.#bytes -= buffer.bytes;
    buffer.isOpen = false;
    if (buffer.common === undefined) destroy({ result: buffer.pieces });
    else buffer.common.leave();
  }

  /** Lets go of all buffers: none is made from now on. */
  release(): void {
    this.#released = true;
    for (const buffer of this.#open) this.free(buffer);
  }

  /** Writes a view's elements to the front of a buffer, in row-major order. */
  upload(view: View, to: DeviceBuffer): void {
    if (this.device.isImaginary) return;
    const bytes = bytesIn(isWhole(view) ? view : cloneView(view));
    this.uploadBytes(bytes.length % 4 === 0 ? bytes : padded(bytes), 0, to);
  }

  /** Writes whole words from a byte of a buffer on, in whichever pieces it lies. */
  uploadBytes(bytes: Uint8Array, start: number, to: DeviceBuffer): void {
    // A buffer that there was no memory for is told of where it was asked for.
    const matters = (): Promise<boolean> => to.isThere;
    for (const { piece, within, at, size } of this.#pieceRanges(bytes.length, start, to))
      this.device.write(piece, bytes.subarray(at, at + size), size, matters, within);
  }

  /** The same for the first bytes of a buffer that the device copies. */
  copyBytes(from: DeviceBuffer, bytes: number, start: number, to: DeviceBuffer): void {
    this.device.submit(
      (encoder) => {
        for (const { piece, within, at, size } of this.#pieceRanges(bytes, start, to))
          encoder.copyBufferToBuffer(from.gpu, at, piece, within, size);
      },
      () => to.isThere,
    );
  }

  /** Where bytes lie that are written from a byte of a buffer on. */
  *#pieceRanges(
    bytes: number,
    start: number,
    { pieces }: DeviceBuffer,
  ): Generator<{ piece: GPUBuffer; within: number; at: number; size: number }> {
    const each = pieces.length === 1 ? Infinity : this.pieceBytes;
    for (let at = 0; at < bytes;) {
      const number = Math.floor((start + at) / each);
      const within = start + at - (number === 0 ? 0 : number * each);
      const size = Math.min(each - within, bytes - at);
      yield { piece: pieces[number], within, at, size };
      at += size;
    }
  }
}

const destroy = ({ result }: Pick<MadeBuffers, "result">): void => result.forEach((piece) => piece.destroy());

/** True for what a device reads as it lies: all of an array that no other thread can write. */
const isWhole = (view: View): boolean =>
  coversStorage(view) &&
  !Array.isArray(view.data) &&
  !(typeof SharedArrayBuffer !== "undefined" && view.data.buffer instanceof SharedArrayBuffer);

function padded(bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(wholeWords(bytes.length));
  whole.set(bytes);
  return whole;
}
