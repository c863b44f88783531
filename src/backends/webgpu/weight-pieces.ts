/**
 * Memory that weights are read into on their way to a device: buffers of the device that the host has mapped, so that it copies nothing itself. There are
 * few of them, and each comes back once the device has copied what was in it.
 */
import { InsituError } from "../../base/error.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { DeviceBuffer, DeviceMemory } from "./buffers.js";
import { usage } from "./device.js";

const { pieceBytes, mostPieces } = keeping;

/** A piece that is mapped. */
export interface WeightPiece {
  readonly buffer: DeviceBuffer;
  readonly bytes: Uint8Array;
}

/** Those of one session, while weights come. */
export class WeightPieces {
  readonly #memory: DeviceMemory;
  readonly #all: DeviceBuffer[] = [];
  readonly #free: WeightPiece[] = [];
  readonly #returning: Promise<void>[] = [];
  /** Whoever waits for a piece looks again. */
  #wake: () => void = () => undefined;
  #failure: unknown;

  constructor(memory: DeviceMemory) {
    this.#memory = memory;
  }

  /** A piece that nobody has; waits until there is one. One waits at a time. */
  async take(): Promise<WeightPiece> {
    while (this.#failure === undefined && this.#free.length === 0 && this.#all.length >= mostPieces)
      await new Promise<void>((wake) => (this.#wake = wake));
    if (this.#failure !== undefined) throw this.#failure;
    return this.#free.pop() ?? this.#make();
  }

  async #make(): Promise<WeightPiece> {
    const [label, uses] = ["weights on their way", usage.mapWrite | usage.copySource];
    let piece: WeightPiece;
    try {
      const buffer = this.#memory.create(pieceBytes, label, uses, true);
      this.#all.push(buffer);
      piece = { buffer, bytes: mappedBytes(buffer) };
    } catch (cause) {
      // Where the host has no memory to map, that is thrown at once; of the device's own it is told later.
      if (cause instanceof RangeError) throw this.#outOfMemory("host", cause);
      throw cause;
    }
    if (await piece.buffer.isThere) return piece;
    this.#memory.device.check();
    throw this.#outOfMemory("device");
  }

  #outOfMemory(where: "host" | "device", cause?: unknown): InsituError {
    const { description } = this.#memory.device;
    return new InsituError(
      "out-of-memory",
      `weights on their way to ${description}: the ${where} has no memory for ${pieceBytes} bytes of them; take a smaller model, or use another backend`,
      { cause },
    );
  }

  /** Gives a piece back as it is. */
  give(piece: WeightPiece): void {
    this.#free.push(piece);
    this.#wake();
  }

  /** Has the device copy the first bytes of a piece to a byte of a buffer, and gives the piece back once it has. */
  send({ buffer }: WeightPiece, bytes: number, start: number, to: DeviceBuffer): void {
    buffer.gpu.unmap();
    this.#memory.copyBytes(buffer, bytes, start, to);
    this.#returning.push(this.#mapAgain(buffer));
  }

  /** Never rejects: whoever takes a piece is told. */
  async #mapAgain(buffer: DeviceBuffer): Promise<void> {
    try {
      await this.#memory.device.map(buffer.gpu, pieceBytes);
      this.give({ buffer, bytes: mappedBytes(buffer) });
    } catch (error) {
      this.#failure ??= error instanceof RangeError ? this.#outOfMemory("host", error) : error;
      this.#wake();
    }
  }

  /** Lets go of all, once the device has copied what was sent. Rejects where it could not. */
  async release(): Promise<void> {
    await Promise.all(this.#returning);
    for (const buffer of this.#all.splice(0)) this.#memory.free(buffer);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const mappedBytes = ({ gpu }: DeviceBuffer): Uint8Array => new Uint8Array(gpu.getMappedRange(0, pieceBytes));
