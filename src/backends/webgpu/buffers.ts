/** Device memory: buffers of whole words, uploads, downloads and copies of places in them. Knows no program. */
import { InsituError } from "../../base/error.js";
import { cloneView } from "../../tensor/copy.js";
import { byteLengthOf, type ElementType, traitsOf } from "../../tensor/element-type.js";
import { Placed } from "../../tensor/placed.js";
import { bytesIn, View, viewOfBytes } from "../../tensor/view.js";
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
    const bytes = bytesIn(cloneView(view));
    const whole = bytes.length % 4 === 0 ? bytes : padded(bytes);
    this.device.queue.writeBuffer(to.gpu, 0, whole as Uint8Array<ArrayBuffer>);
  }

  /** The elements of a place on the host. What was submitted before is done first. */
  async download({ type, shape, strides, offset, size, buffer }: DevicePlace): Promise<View> {
    if (size === 0) return View.allocate(type, shape);
    const { bits } = traitsOf(type);
    const last = offset + shape.reduce((sum, dim, axis) => sum + (dim - 1) * strides[axis], 0);
    const start = Math.floor((offset * bits) / 32) * 4;
    const end = Math.min(buffer.bytes, wholeWords(Math.ceil(((last + 1) * bits) / 8)));
    const bytes = await this.#read(buffer, start, end - start);
    const elements = Math.floor((bytes.length * 8) / bits);
    const whole = viewOfBytes(
      type as Exclude<ElementType, "string">,
      [elements],
      bytes.subarray(0, byteLengthOf(type, elements)),
    );
    return cloneView(new View(type, shape, whole.data, offset - (start * 8) / bits, strides));
  }

  async #read(buffer: DeviceBuffer, start: number, size: number): Promise<Uint8Array> {
    this.device.check();
    const { gpu, queue } = this.device;
    const staging = gpu.createBuffer({ label: "download", size, usage: usage.mapRead | usage.copyTarget });
    const encoder = gpu.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer.gpu, start, staging, 0, size);
    queue.submit([encoder.finish()]);
    try {
      await staging.mapAsync(mapToRead);
      return new Uint8Array(staging.getMappedRange().slice(0));
    } catch (cause) {
      this.device.check();
      throw new InsituError("internal", `a download of ${size} bytes failed`, { cause });
    } finally {
      staging.destroy();
    }
  }
}

function padded(bytes: Uint8Array): Uint8Array {
  const whole = new Uint8Array(wholeWords(bytes.length));
  whole.set(bytes);
  return whole;
}
