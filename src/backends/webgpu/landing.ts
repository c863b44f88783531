/** The way from a device's memory to the host: buffers that the host maps, which copies of a place take turns in. */
import { InsituError } from "../../base/error.js";
import { cloneView } from "../../tensor/copy.js";
import { byteLengthOf, type ElementType, traitsOf } from "../../tensor/element-type.js";
import { View, viewOfBytes } from "../../tensor/view.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import { type DeviceBuffer, type DeviceMemory, type DevicePlace, holds, wholeWords } from "./buffers.js";
import { usage } from "./device.js";

const mappable = usage.mapRead | usage.copyTarget;

/** Bytes for what each of some runs brings or takes: with room for more of them where that is little, since series come in many lengths. */
export const roomFor = (runs: number, bytes: number): number =>
  bytes *
  Math.max(runs, runs === 1 ? 1 : Math.min(keeping.spareRuns, Math.floor(keeping.spareBytes / Math.max(1, bytes))));

/** Copies of a place on their way to the host, one for each of some runs. */
export interface OpenLanding {
  /** Copies the place's bytes as they are at this point of what the encoder holds. */
  copy(encoder: GPUCommandEncoder): void;
  /** The elements of all copies, in their order, once these were submitted: to be called once. */
  read(): Promise<readonly View[]>;
  /** In place of `read`, where nothing is submitted after all. */
  abandon(): void;
}

/** Memory that the host can map, for the elements of one place. Copies on their way have a buffer; once it was read, the next ones take it. */
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

  /** Where so many copies land. */
  open(copies: number): OpenLanding {
    const { type, shape, size } = this.#place;
    if (size === 0)
      return {
        copy: () => undefined,
        read: async () => Array.from({ length: copies }, () => View.allocate(type, shape)),
        abandon: () => undefined,
      };
    this.#memory.device.check();
    const bytes = roomFor(copies, this.#size);
    const free = this.#free.findIndex((buffer) => holds(buffer, bytes));
    const [buffer] =
      free === -1
        ? [this.#memory.create(bytes, `${this.#place} on its way to the host`, mappable)]
        : this.#free.splice(free, 1);
    let at = 0;
    return {
      copy: (encoder) => {
        encoder.copyBufferToBuffer(this.#place.buffer.gpu, this.#start, buffer.gpu, at, this.#size);
        at += this.#size;
      },
      read: () => this.#read(buffer, copies),
      abandon: () => this.#giveBack(buffer),
    };
  }

  async #read(buffer: DeviceBuffer, copies: number): Promise<readonly View[]> {
    const size = copies * this.#size;
    let bytes: Uint8Array;
    try {
      bytes = await this.#memory.device.read(buffer.gpu, size);
    } catch (cause) {
      this.#memory.free(buffer);
      this.#memory.device.check();
      throw new InsituError("internal", `${this.#place} could not be brought to the host`, { cause });
    }
    this.#giveBack(buffer);
    return Array.from({ length: copies }, (_, at) =>
      this.#elements(bytes.subarray(at * this.#size, (at + 1) * this.#size)),
    );
  }

  #giveBack(buffer: DeviceBuffer): void {
    if (this.#released) this.#memory.free(buffer);
    else this.#free.push(buffer);
  }

  /** The elements among the bytes of one copy. */
  #elements(bytes: Uint8Array): View {
    const { type, shape, strides, offset } = this.#place;
    const { bits } = traitsOf(type);
    const elements = Math.floor((bytes.length * 8) / bits);
    // Elements of 8 bytes lie at multiples of 8, whatever the copy begins at.
    const own = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
    const whole = viewOfBytes(
      type as Exclude<ElementType, "string">,
      [elements],
      own.subarray(0, byteLengthOf(type, elements)),
    );
    return cloneView(new View(type, shape, whole.data, offset - (this.#start * 8) / bits, strides));
  }

  /** Lets go of the buffers; those of copies on their way go once these were read. */
  release(): void {
    this.#released = true;
    for (const buffer of this.#free.splice(0)) this.#memory.free(buffer);
  }
}

/** The elements of a place on the host. What was submitted before is done first. */
export async function download(memory: DeviceMemory, place: DevicePlace): Promise<View> {
  await memory.settle();
  const landing = new Landing(memory, place);
  const landed = landing.open(1);
  memory.device.submit((encoder) => landed.copy(encoder));
  try {
    const [view] = await landed.read();
    await memory.device.settle();
    return view;
  } finally {
    landing.release();
  }
}
