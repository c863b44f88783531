/** Operands as kernels look at them while a program is bound: without bytes, and some of them not on the device yet. */
import type { Value } from "../../graph/graph.js";
import type { Placed } from "../../tensor/placed.js";
import { View } from "../../tensor/view.js";
import type { Pieces } from "../../webgpu-kernels/webgpu-kernel.js";
import { DeviceBuffer, devicePlace } from "./buffers.js";

/** Stands for a value that is on the host until a dispatch binds it. */
export class Pending extends DeviceBuffer {
  readonly value: Value;

  /** `inPieces`: how it will lie. */
  constructor(value: Value, inPieces: Pieces | undefined) {
    super([], 0, undefined, inPieces);
    this.value = value;
  }
}

/** A place as kernels look at it: without bytes. */
export const tokenView = (place: Placed): View =>
  new View(place.type, place.shape, devicePlace(place).buffer.token, place.offset, place.strides);
