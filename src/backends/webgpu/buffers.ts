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

  /** A zeroed buffer. Where there is no memory for it, `settle` tells. */
  allocate(bytes: number, label: string): DeviceBuffer {
    const size = Math.max(16, wholeWords(bytes));
    const { gpu } = this.device;
    this.#checkSize(size, label);
    const what = `${label}: ${size} bytes beside ${this.#bytes} that the session has on ${this.device.description}`;
    const { result, settled } = this.device.attempt(what, () => gpu.createBuffer({ label, size, usage: storage }));
    this.#pending.push(settled);
    const buffer = new DeviceBuffer(result, size);
    this.#open.add(buffer);
    this.#bytes += size;
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
    buffer.gpu.destroy();
  }

  release(): void {
    for (const buffer of this.#open) buffer.gpu.destroy();
    this.#open.clear();
    this.#bytes = 0;
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
    return new Landing(this.device, place);
  }
}

/** Memory that the host can map, for the elements of one place. Each copy on its way has a buffer; once it was read, the next one takes it. */
export class Landing {
  readonly #device: Device;
  readonly #place: DevicePlace;
  readonly #start: number;
  readonly #size: number;
  /** Buffers that no copy is on its way to. */
  readonly #free: GPUBuffer[] = [];
  #released = false;

  constructor(device: Device, place: DevicePlace) {
    this.#device = device;
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
    this.#device.check();
    const usages = usage.mapRead | usage.copyTarget;
    const buffer =
      this.#free.pop() ?? this.#device.gpu.createBuffer({ label: "to the host", size: this.#size, usage: usages });
    encoder.copyBufferToBuffer(this.#place.buffer.gpu, this.#start, buffer, 0, this.#size);
    return () => this.#read(buffer);
  }

  async #read(buffer: GPUBuffer): Promise<View> {
    const { type, shape, strides, offset } = this.#place;
    let bytes: Uint8Array;
    try {
      await buffer.mapAsync(mapToRead);
      bytes = new Uint8Array(buffer.getMappedRange().slice(0));
      buffer.unmap();
    } catch (cause) {
      buffer.destroy();
      this.#device.check();
      throw new InsituError("internal", `${this.#place} could not be brought to the host`, { cause });
    }
    if (this.#released) buffer.destroy();
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
    for (const buffer of this.#free.splice(0)) buffer.destroy();
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
