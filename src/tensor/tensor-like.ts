/**
 * Tensors that other packages made, taken as our own: onnxruntime-common's, those of another copy of insitu, plain objects. Each property is
 * read once, so that a getter that answers differently later changes nothing. Converts no data: the tensor is over the very array.
 */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { Storage } from "./element-type.js";
import { isTensor, Tensor } from "./tensor.js";
import { refuse } from "./tensor-data.js";

/** An object with a tensor's type, data and dims, such as a tensor of onnxruntime-common. Its data is on the CPU. */
export interface TensorLike {
  /** The element type, by the name that `new Tensor` takes. */
  readonly type: string;
  /** The elements, packed as ONNX packs them. */
  readonly data: ArrayBufferView | readonly string[];
  /** The size along each axis. */
  readonly dims: readonly number[];
  /** "cpu", or undefined. */
  readonly location?: string;
}

/** Where the data of somebody else's tensor can be read at once. */
const readable: ReadonlySet<unknown> = new Set(["cpu", "cpu-pinned", undefined]);

/**
 * The tensor that a value is, or one of insitu's over the same array where it looks like one; undefined for what does not. Throws, with the
 * words of `new Tensor`, for what is nearly one: `what` begins them.
 */
export function tensorOf(value: unknown, what: string): Tensor | undefined {
  if (isTensor(value)) return value;
  if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value))
    return undefined;
  try {
    return ownTensor(value);
  } catch (error) {
    if (error instanceof InsituError) throw new InsituError(error.code, `${what}: ${error.message}`, { cause: error });
    throw error;
  }
}

/** What one property of somebody else's object says; its getter may throw anything. */
function read(value: object, name: keyof TensorLike): unknown {
  try {
    return Reflect.get(value, name, value);
  } catch (cause) {
    throw new InsituError(
      "invalid-argument",
      `Tensor: the ${name} of a tensor that insitu did not make cannot be read: ${valueText(cause)}; make a new Tensor(type, data, dims) of its elements`,
      { cause },
    );
  }
}

function ownTensor(value: object): Tensor | undefined {
  const type = read(value, "type");
  const dims = read(value, "dims");
  // What has neither is no tensor at all.
  if (typeof type !== "string" || dims === undefined) return undefined;
  const location = read(value, "location");
  if (location === "none")
    return refuse("a tensor with no location has no data: it was disposed, or is behind a proxy");
  if (!readable.has(location))
    return refuse(
      `a tensor that insitu did not make must be on the CPU, got one with location ${valueText(location)}; new Tensor(type, await tensor.getData(), dims) has its elements`,
    );
  const data = read(value, "data");
  if (data === undefined) return undefined;
  if (Array.isArray(data) ? type !== "string" : !ArrayBuffer.isView(data))
    return refuse(
      `data of a tensor that insitu did not make must be ${type === "string" ? "an array of strings" : "a typed array"}, got ${valueText(data)}`,
    );
  if (!Array.isArray(dims)) return refuse(`dims must be a number array, got ${valueText(dims)}`);
  return new Tensor(type, data as Storage, dims as number[]);
}
