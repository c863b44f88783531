/** The tensor users hold: onnxruntime-common's shape, every ONNX element type, `data` is the caller's own array. */
import { InsituError } from "../base/error.js";
import { arrayConstructorOf, type ElementType, isElementType, type Storage, storageLengthOf, traitsOf } from "./element-type.js";
import { isSmallFloat } from "./float.js";
import { cloneView, contiguous } from "./copy.js";
import { coversStorage, elementCount, View } from "./view.js";

/** Where a tensor's bytes live. */
export type TensorLocation = "cpu";

/** What a tensor can be made of: its storage array, plain numbers, bigints for 64-bit integers, or booleans for bool. */
export type TensorData = Storage | readonly number[] | readonly bigint[] | readonly boolean[] | readonly string[] | Uint8ClampedArray;

/** onnxruntime's names that differ from ONNX's. */
const typeAliases: Record<string, ElementType> = { float: "float32", double: "float64" };

/** An n-dimensional array of one ONNX element type. */
export class Tensor {
  readonly type: ElementType;
  readonly dims: readonly number[];
  readonly size: number;
  #data: Storage | undefined;

  /** `new Tensor(type, data, dims)`, or `new Tensor(data, dims)` where the array's class tells the type. */
  constructor(type: ElementType | (string & {}), data: TensorData, dims?: readonly number[]);
  constructor(data: TensorData, dims?: readonly number[]);
  constructor(first: string | TensorData, second?: TensorData | readonly number[], third?: readonly number[]) {
    const named = typeof first === "string";
    const data = (named ? second : first) as TensorData;
    const dims = (named ? third : second) as readonly number[] | undefined;
    const name = named ? (typeAliases[first] ?? first) : typeOfData(first);
    if (!isElementType(name)) throw new InsituError("invalid-argument", `Tensor: "${name}" is not an element type of ONNX`);
    if (data === undefined || data === null) throw new InsituError("invalid-argument", `Tensor: data is missing for type ${name}`);
    const storage = toStorage(name, data);
    const shape = dims ?? [storage.length];
    for (const dim of shape) {
      if (!Number.isSafeInteger(dim) || dim < 0) {
        throw new InsituError("invalid-argument", `Tensor: dims must be non-negative integers, got [${shape.join(",")}]`);
      }
    }
    this.type = name;
    this.dims = [...shape];
    this.size = elementCount(shape);
    const expected = storageLengthOf(name, this.size);
    if (storage.length !== expected) {
      throw new InsituError(
        "invalid-argument",
        `Tensor: ${name}[${shape.join(",")}] needs ${expected} entries of data, got ${storage.length}`,
      );
    }
    this.#data = storage;
  }

  /** A tensor over a view: without a copy where the view is its whole storage. */
  static fromView(view: View): Tensor {
    const plain = coversStorage(view) ? view : cloneView(view);
    return new Tensor(view.type, plain.data, view.shape);
  }

  /** The elements as kernels see them: the same bytes, no copy. */
  toView(): View {
    return new View(this.type, this.dims, this.data);
  }

  /** The tensor's own array, packed as ONNX packs it. */
  get data(): Storage {
    if (this.#data === undefined) throw new InsituError("invalid-argument", `Tensor: ${this.type}[${this.dims.join(",")}] was disposed`);
    return this.#data;
  }

  get location(): TensorLocation | "none" {
    return this.#data === undefined ? "none" : "cpu";
  }

  /** The data, once it is on the CPU. */
  getData(): Promise<Storage> {
    return Promise.resolve().then(() => this.data);
  }

  /** Lets go of the data; the tensor cannot be used afterwards. */
  dispose(): void {
    this.#data = undefined;
  }

  /** The same data under other dims of the same size. */
  reshape(dims: readonly number[]): Tensor {
    return new Tensor(this.type, contiguous(this.toView()).data, dims);
  }

  toString(): string {
    return `${this.type}[${this.dims.join(",")}]`;
  }
}

/** The element type that an untyped constructor argument stands for. */
function typeOfData(data: TensorData): string {
  if (Array.isArray(data)) {
    if (typeof data[0] === "string") return "string";
    if (typeof data[0] === "boolean") return "bool";
    throw new InsituError("invalid-argument", "Tensor: an array of numbers needs its type: new Tensor(type, data, dims)");
  }
  if (data instanceof Uint8ClampedArray) return "uint8";
  const name = Object.prototype.toString.call(data).slice(8, -1);
  const type = { BigInt64Array: "int64", BigUint64Array: "uint64" }[name] ?? name.replace(/Array$/, "").toLowerCase();
  if (!isElementType(type)) throw new InsituError("invalid-argument", `Tensor: data must be a typed array or an array, got ${name}`);
  return type;
}

/** The caller's own array where it is of the right class, else a converted copy. */
function toStorage(type: ElementType, data: TensorData): Storage {
  if (type === "string") {
    if (!Array.isArray(data)) throw new InsituError("invalid-argument", "Tensor: string data must be an array of strings");
    return data as string[];
  }
  const constructor = arrayConstructorOf(type);
  const given = Object.prototype.toString.call(data).slice(8, -1);
  if (given === constructor.name) return data as Storage;
  if (given === "Float16Array" && type === "float16") {
    const view = data as Storage as Exclude<Storage, string[]>;
    return new Uint16Array(view.buffer, view.byteOffset, view.byteLength / 2);
  }
  if (data instanceof Uint8ClampedArray && type === "uint8") return new Uint8Array(data.buffer, data.byteOffset, data.length);
  if (!Array.isArray(data)) {
    throw new InsituError("invalid-argument", `Tensor: data of type ${type} must be ${/^[AEIOU]/.test(constructor.name) ? "an" : "a"} ${constructor.name}, got ${given}`);
  }
  if (isSmallFloat(type) || traitsOf(type).bits < 8) {
    throw new InsituError("invalid-argument", `Tensor: data of type ${type} must be its bit patterns in a ${constructor.name}, not plain numbers`);
  }
  const wide = type === "int64" || type === "uint64";
  const values = data as readonly (number | bigint | boolean | string)[];
  const target = new constructor(data.length);
  try {
    for (let i = 0; i < data.length; i++) target[i] = wide ? BigInt(values[i]) : Number(values[i]);
  } catch (cause) {
    throw new InsituError("invalid-argument", `Tensor: data of type ${type} holds a value that is not a number`, { cause });
  }
  return target;
}
