/** Device memory: buffers of whole words, uploads, downloads and copies of places in them. Knows no program. */
import { InsituError } from "../../base/error.js";
import { cloneView } from "../../tensor/copy.js";
import { byteLengthOf, type ElementType, traitsOf } from "../../tensor/element-type.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, coversStorage, View, viewOfBytes } from "../../tensor/view.js";
import { type Device, mapToRead, usage } from "./device.js";

/** A buffer on the device. */
export class DeviceBuffer {
  readonly gpu: GPUBuffer;
  readonly bytes: number;
  /** False once the device told that it had no memory for it, or it was let go of. */
  isOpen = true;
  /** Stands for the buffer where kernels look at operands: it has no bytes, but tells buffers apart. */
  readonly token: Uint8Array = new Uint8Array(0);

  constructor(gpu: GPUBuffer, bytes: number) {
    this.gpu = gpu;
    this.bytes = bytes;
  }
}

export type DevicePlace = Placed<DeviceBuffer>;

export const isDevicePlace = (place: Placed): place is DevicePlace => place.buffer instanceof DeviceBuffer;

/** A place that must be on the device. */
export function devicePlace(place: Placed): DevicePlace {
  if (isDevicePlace(place)) return place;
  throw new InsituError("internal", `${place} was taken for one on the device`);
}

/** Bytes as buffers and copies count them. */
const wholeWords = (bytes: number): number => Math.ceil(bytes / 4) * 4;

const storage = usage.storage | usage.copySource | usage.copyTarget;

/** The buffers of one session. */
export class DeviceMemory {
  readonly device: Device;
  readonly #open = new Set<DeviceBuffer>();
  #bytes = 0;
  /** Allocations whose outcome the device has still to tell. */
  #pending: Promise<void>[] = [];

  constructor(device: Device) {
    this.device = device;
  }

  get byteLength(): number {
    return this.#bytes;
  }

  /** A zeroed buffer that shaders read and write. Where there is no memory for it, `settle` tells. */
  allocate(bytes: number, label: string): DeviceBuffer {
    this.#checkSize(bytes, label);
    return this.create(bytes, label, storage);
  }

  /** A buffer for other uses. */
  create(bytes: number, label: string, uses: number): DeviceBuffer {
    const size = Math.max(16, wholeWords(bytes));
    const { gpu } = this.device;
    const what = `${label}: ${size} bytes beside ${this.#bytes} that the session has on ${this.device.description}`;
    const { result, settled } = this.device.attempt(what, () => gpu.createBuffer({ label, size, usage: uses }));
    const buffer = new DeviceBuffer(result, size);
    this.#open.add(buffer);
    this.#bytes += size;
    // What the device has no memory for is nobody's: who asks for it again asks the device again.
    this.#pending.push(
      settled.catch((error: unknown) => {
        this.free(buffer);
        throw error;
      }),
    );
    this.#pending.at(-1)!.catch(() => undefined);
    return buffer;
  }

  /** Throws for weights of which one is larger than a buffer can be. */
  checkSizes(sizes: readonly number[]): void {
    for (const size of sizes) this.#checkSize(size, "a weight");
  }

  #checkSize(size: number, label: string): void {
    const { maxBufferSize, maxStorageBufferBindingSize } = this.device.gpu.limits;
    const most = Math.min(maxBufferSize, maxStorageBufferBindingSize);
    if (size > most)
      throw new InsituError(
        "out-of-memory",
        `${label}: ${size} bytes are needed, and one buffer of ${this.device.description} holds ${most}`,
      );
  }

  /** Waits for the outcome of allocations so far; rejects where one failed. */
  async settle(): Promise<void> {
    const pending = this.#pending;
    if (pending.length === 0) return;
    this.#pending = [];
    await Promise.all(pending);
  }

  free(buffer: DeviceBuffer): void {
    if (!this.#open.delete(buffer)) return;
    this.#bytes -= buffer.bytes;
    buffer.isOpen = false;
    buffer.gpu.destroy();
  }

  release(): void {
    for (const buffer of this.#open) this.free(buffer);
  }

  /** Writes a view's elements to the front of a buffer, in row-major order. */
  upload(view: View, to: DeviceBuffer): void {
    const bytes = bytesIn(isWhole(view) ? view : cloneView(view));
    const whole = bytes.length % 4 === 0 ? bytes : padded(bytes);
    this.device.queue.writeBuffer(to.gpu, 0, whole as Uint8Array<ArrayBuffer>);
  }

  /** The elements of a place on the host. What was submitted before is done first. */
  async download(place: DevicePlace): Promise<View> {
    const landing = this.landingFor(place);
    await this.settle();
    const encoder = this.device.gpu.createCommandEncoder();
    const read = landing.encode(encoder);
    this.device.queue.submit([encoder.finish()]);
    try {
      return await read();
    } finally {
      landing.release();
    }
  }

  /** What brings a place to the host, as often as it is asked. */
  landingFor(place: DevicePlace): Landing {
    return new Landing(this, place);
  }
}

const mappable = usage.mapRead | usage.copyTarget;

/** Memory that the host can map, for the elements of one place. Each copy on its way has a buffer; once it was read, the next one takes it. */
export class Landing {
  readonly #memory: DeviceMemory;
  readonly #place: DevicePlace;
  readonly #start: number;
  readonly #size: number;
  /** Buffers that no copy is on its way to. */
  readonly #free: DeviceBuffer[] = [];
  #released = false;

  constructor(memory: DeviceMemory, place: DevicePlace) {
    this.#memory = memory;
    this.#place = place;
    const { type, shape, strides, offset, buffer } = place;
    const { bits } = traitsOf(type);
    const last = offset + shape.reduce((sum, dim, axis) => sum + (dim - 1) * strides[axis], 0);
    this.#start = Math.floor((offset * bits) / 32) * 4;
    this.#size = Math.min(buffer.bytes, wholeWords(Math.ceil(((last + 1) * bits) / 8))) - this.#start;
  }

  /** Copies the place's bytes to where the host can map them. What it returns reads them, once the copy was submitted: to be called once. */
  encode(encoder: GPUCommandEncoder): () => Promise<View> {
    const { type, shape, size } = this.#place;
    if (size === 0) return async () => View.allocate(type, shape);
    this.#memory.device.check();
    const buffer =
      this.#free.pop() ?? this.#memory.create(this.#size, `${this.#place} on its way to the host`, mappable);
    encoder.copyBufferToBuffer(this.#place.buffer.gpu, this.#start, buffer.gpu, 0, this.#size);
    return () => this.#read(buffer);
  }

  async #read(buffer: DeviceBuffer): Promise<View> {
    const { type, shape, strides, offset } = this.#place;
    let bytes: Uint8Array;
    try {
      await buffer.gpu.mapAsync(mapToRead);
      bytes = new Uint8Array(buffer.gpu.getMappedRange(0, this.#size).slice(0));
      buffer.gpu.unmap();
    } catch (cause) {
      this.#memory.free(buffer);
      this.#memory.device.check();
      throw new InsituError("internal", `${this.#place} could not be brought to the host`, { cause });
    }
    if (this.#released) this.#memory.free(buffer);
    else this.#free.push(buffer);
    const { bits } = traitsOf(type);
    const elements = Math.floor((bytes.length * 8) / bits);
    const whole = viewOfBytes(
      type as Exclude<ElementType, "string">,
      [elements],
      bytes.subarray(0, byteLengthOf(type, elements)),
    );
    return cloneView(new View(type, shape, whole.data, offset - (this.#start * 8) / bits, strides));
  }

  /** Lets go of the buffers; those of copies on their way go once these were read. */
  release(): void {
    this.#released = true;
    for (const buffer of this.#free.splice(0)) this.#memory.free(buffer);
  }
}

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
