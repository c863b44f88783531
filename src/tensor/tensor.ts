/** The tensor users hold: onnxruntime-common's shape, every ONNX element type, `data` is the caller's own array. */
import {
  type DataTypeMap as DataTypes,
  type ElementType,
  isElementType,
  isPacked,
  type Storage,
  storageLengthOf,
  traitsOf,
} from "./element-type.js";
import { cloneView } from "./copy.js";
import { type DataFor, refuse, type TensorData, toStorage, type TypeOfData, typeOfData } from "./tensor-data.js";
import { coversStorage, elementCount, View } from "./view.js";

export type { DataFor, TensorData };

/** Where a tensor's bytes live. */
export type TensorLocation = "cpu";

/** An n-dimensional array of one ONNX element type. */
export interface Tensor<T extends ElementType = ElementType> {
  readonly type: T;
  readonly dims: readonly number[];
  /** Number of elements. */
  readonly size: number;
  /** The tensor's own array, packed as ONNX packs it. */
  readonly data: DataTypes[T];
  /** "none" once the tensor was disposed. */
  readonly location: TensorLocation | "none";
  /** The data, once it is on the CPU; `releaseData` is for data elsewhere. */
  getData(releaseData?: boolean): Promise<DataTypes[T]>;
  /** Lets go of the data; the tensor cannot be used afterwards. */
  dispose(): void;
  /** The same data under other dims of the same size. */
  reshape(dims: readonly number[]): Tensor<T>;
  /** The elements as kernels see them: the same bytes, no copy. */
  toView(): View;
  toString(): string;
}

/** onnxruntime-common's names for the types around a tensor. */
export declare namespace Tensor {
  type Type = ElementType;
  type DataType = Storage;
  type DataLocation = TensorLocation | "none";
  type DataTypeMap = DataTypes;
}

/** A tensor whose element type is known: onnxruntime-common's name. */
export type TypedTensor<T extends ElementType> = Tensor<T>;

/** How tensors are made. */
export interface TensorConstructor {
  /** Dims that are left out stand for one dimension. */
  new <T extends ElementType>(type: T, data: DataFor<T>, dims?: readonly number[]): Tensor<T>;
  new (type: "float", data: DataFor<"float32">, dims?: readonly number[]): Tensor<"float32">;
  new (type: "double", data: DataFor<"float64">, dims?: readonly number[]): Tensor<"float64">;
  /** The array's class tells the type. */
  new <D extends Storage | Uint8ClampedArray | readonly string[] | readonly boolean[]>(
    data: D,
    dims?: readonly number[],
  ): Tensor<TypeOfData<D>>;
  /** For a type that only the running program knows. */
  new (type: string, data: TensorData, dims?: readonly number[]): Tensor;
  readonly prototype: Tensor;
  /** A tensor over a view: without a copy where the view is its whole storage. */
  fromView(view: View): Tensor;
}

/** ONNX's own names that differ from onnxruntime's. */
const typeAliases: ReadonlyMap<string, ElementType> = new Map([
  ["float", "float32"],
  ["double", "float64"],
]);

const shapeText = (type: ElementType, dims: readonly number[]): string => `${type}[${dims.join(",")}]`;

/** The dims of a tensor that was given none. */
function dimsOfData(type: ElementType, storage: Storage): readonly number[] {
  if (isPacked(type) && storage.length > 0) refuse(`${type} needs dims: its ${storage.length} bytes do not tell them`);
  return [traitsOf(type).kind === "complex" ? Math.floor(storage.length / 2) : storage.length];
}

function checkDims(dims: readonly number[]): void {
  if (!Array.isArray(dims)) refuse(`dims must be an array of numbers, got ${typeof dims}`);
  for (const dim of dims) {
    if (!Number.isSafeInteger(dim) || dim < 0) refuse(`dims must be non-negative integers, got [${dims.join(",")}]`);
  }
}

class CpuTensor<T extends ElementType> implements Tensor<T> {
  /** What debuggers print. */
  static readonly name: string = "Tensor";
  readonly type: T;
  readonly dims: readonly number[];
  readonly size: number;
  #data: DataTypes[T] | undefined;

  constructor(first: string | TensorData, second?: TensorData | readonly number[], third?: readonly number[]) {
    const named = typeof first === "string";
    const type = named ? (typeAliases.get(first) ?? first) : typeOfData(first);
    if (!isElementType(type)) refuse(`"${type}" is not an element type of ONNX`);
    const storage = toStorage(type, (named ? second : first) as TensorData);
    const dims = (named ? third : second) as readonly number[] | undefined;
    const shape = dims === undefined ? dimsOfData(type, storage) : dims;
    checkDims(shape);
    this.type = type as T;
    this.dims = [...shape];
    this.size = elementCount(shape);
    const expected = storageLengthOf(type, this.size);
    if (storage.length !== expected)
      refuse(`${shapeText(type, shape)} needs ${expected} entries of data, got ${storage.length}`);
    // The class of the array was checked against the type above.
    this.#data = storage as DataTypes[T];
  }

  static fromView(view: View): Tensor {
    const plain = coversStorage(view) ? view : cloneView(view);
    return new CpuTensor(view.type, plain.data, view.shape);
  }

  toView(): View {
    return new View(this.type, this.dims, this.data);
  }

  get data(): DataTypes[T] {
    return this.#data ?? refuse(`${this} was disposed`);
  }

  get location(): TensorLocation | "none" {
    return this.#data === undefined ? "none" : "cpu";
  }

  getData(): Promise<DataTypes[T]> {
    return Promise.resolve().then(() => this.data);
  }

  dispose(): void {
    this.#data = undefined;
  }

  reshape(dims: readonly number[]): Tensor<T> {
    const { data } = this;
    checkDims(dims);
    if (elementCount(dims) !== this.size) refuse(`${this} of ${this.size} elements cannot become [${dims.join(",")}]`);
    return new CpuTensor<T>(this.type, data, dims);
  }

  toString(): string {
    return shapeText(this.type, this.dims);
  }
}

/** Makes tensors. */
export const Tensor: TensorConstructor = CpuTensor as TensorConstructor;
