/** The parameters of dispatches, side by side in one uniform buffer: what a shader reads as `p`. */
import { InsituError } from "../../base/error.js";
import type { Dispatch, Parameter } from "../../webgpu-kernels/webgpu-kernel.js";
import type { DeviceBuffer, DeviceMemory } from "./buffers.js";
import { usage } from "./device.js";

/** The parameters of a list of dispatches. They never change. */
export class ParameterMemory {
  readonly #memory: DeviceMemory;
  readonly #buffer: DeviceBuffer | undefined;
  /** Where each dispatch's begin and how long they are. */
  readonly #places: readonly { readonly offset: number; readonly size: number }[];

  constructor(memory: DeviceMemory, dispatches: readonly Dispatch[]) {
    this.#memory = memory;
    const { device } = memory;
    const { minUniformBufferOffsetAlignment: step } = device.limits;
    const all = dispatches.map((dispatch) => parameterBytes(inMemory(dispatch)));
    let end = 0;
    this.#places = all.map(({ byteLength }) => {
      const place = { offset: end, size: Math.ceil(byteLength / 16) * 16 };
      end += Math.ceil(byteLength / step) * step;
      return place;
    });
    if (end === 0) return;
    const bytes = new Uint8Array(end);
    all.forEach((own, at) => bytes.set(new Uint8Array(own), this.#places[at].offset));
    this.#buffer = memory.create(end, "parameters", usage.uniform | usage.copyTarget);
    const { gpu, isThere } = this.#buffer;
    device.write(gpu, bytes, end, () => isThere);
  }

  /** Where those of the dispatch at a position are; undefined where it has none. */
  of(at: number): GPUBufferBinding | undefined {
    const { offset, size } = this.#places[at];
    return this.#buffer === undefined || size === 0 ? undefined : { buffer: this.#buffer.gpu, offset, size };
  }

  release(): void {
    if (this.#buffer !== undefined) this.#memory.free(this.#buffer);
  }
}

/** The parameters that lie in memory: what is fixed stands in the shader, but for what is open. */
const inMemory = ({ parameters, fixed, open = [] }: Dispatch): Dispatch["parameters"] =>
  fixed === true ? Object.fromEntries(open.map((name) => [name, parameters[name]])) : parameters;

/** The bytes of a dispatch's parameters. */
function parameterBytes(parameters: Readonly<Record<string, Parameter>>): ArrayBuffer {
  const values = Object.values(parameters);
  const bytes = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, at) => {
    if (typeof value !== "number") bytes.setFloat32(4 * at, value.float, true);
    else if (Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 32) bytes.setInt32(4 * at, value, true);
    else throw new InsituError("internal", `parameter ${Object.keys(parameters)[at]} is no 32-bit integer: ${value}`);
  });
  return bytes.buffer;
}
