/**
 * The tensor users hold: onnxruntime-common's shape, every ONNX element type, `data` is the caller's own array. A tensor's type and dims
 * never change; whether its array still has all its entries is asked each time they are to be read.
 */
import { valueText } from "../base/value-text.js";
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
import { Lender, type TensorLocation } from "./lender.js";
import {
  type DeviceTypes,
  type ElementTypeMap as PlainTypes,
  refuseFeature,
  type TensorFactory,
} from "./onnxruntime-tensor.js";
import {
  checkStrings,
  type DataFor,
  entriesOf,
  refuse,
  type TensorData,
  toStorage,
  type TypeOfData,
  typeOfData,
} from "./tensor-data.js";
import { coversStorage, elementCount, View } from "./view.js";

export type { TensorData, TensorLocation };

/** An n-dimensional array of one ONNX element type. */
export interface Tensor<T extends ElementType = ElementType> {
  /** The element type. */
  readonly type: T;
  /** The size along each axis. */
  readonly dims: readonly number[];
  /** Number of elements. */
  readonly size: number;
  /** The tensor's own array, packed as ONNX packs it; throws for a tensor on a device: `await getData()` works everywhere. */
  readonly data: DataTypes[T];
  /**
   * Where the data is: "cpu", "gpu-buffer", or "none" once the tensor was disposed or its state released. Other values are onnxruntime's, and do not
   * occur.
   */
  readonly location: Tensor.DataLocation;
  /** Gets `data`; for a tensor on a GPU, a copy of what it holds now. */
  getData(releaseData?: boolean): Promise<DataTypes[T]>;
  /** Frees the data. The tensor cannot be used afterwards. */
  dispose(): void;
  /** Part of onnxruntime's interface. Throws: insitu's tensors have no such form. */
  readonly texture: DeviceTypes["texture"];
  /** Part of onnxruntime's interface. Throws: insitu's tensors have no such form. */
  readonly gpuBuffer: DeviceTypes["gpuBuffer"];
  /** Part of onnxruntime's interface. Throws: insitu's tensors have no such form. */
  readonly mlTensor: DeviceTypes["mlTensor"];
  /** Part of onnxruntime's interface. Throws: insitu's tensors have no such form. */
  toDataURL(options?: object): string;
  /** Part of onnxruntime's interface. Throws: insitu's tensors have no such form. */
  toImageData(options?: object): DeviceTypes["imageData"];
  /** Returns a tensor of other dims and the same size that shares this one's data. */
  reshape(dims: readonly number[]): Tensor<T>;
  /**
   * For insitu itself: the elements as kernels see them, the same bytes, no copy. What it shows of a state is good for one call, and
   * kept from nobody. Throws where the array no longer has all its entries.
   */
  toView(): View;
  /** Type and dims, such as `float32[1,3]`. */
  toString(): string;
}

/** onnxruntime-common's names for the types around a tensor. */
export declare namespace Tensor {
  type Type = ElementTypeName;
  type DataType = Storage;
  type DataLocation = TensorLocation | "none" | "cpu-pinned" | "texture" | "ml-tensor";
  type DataTypeMap = DataTypes;
  type ElementTypeMap = PlainTypes;
  type ElementType = PlainTypes[keyof PlainTypes];
  type CpuPinnedDataTypes = Exclude<Type, "string">;
  type TextureType = DeviceTypes["texture"];
  type TextureDataTypes = "float32";
  type GpuBufferType = DeviceTypes["gpuBuffer"];
  type GpuBufferDataTypes = "float32" | "float16" | "int32" | "int64" | "uint32" | "uint8" | "bool";
  type MLTensorType = DeviceTypes["mlTensor"];
  type MLTensorDataTypes = GpuBufferDataTypes | "int8" | "uint64" | "uint4" | "int4";
}

type ElementTypeName = ElementType;

/** A tensor whose element type is known: onnxruntime-common's name. */
export type TypedTensor<T extends ElementType> = Tensor<T>;

/** How tensors are made. */
export interface TensorConstructor extends TensorFactory {
  /** Makes a tensor of this type. Without `dims` it has one dimension. */
  new <T extends ElementType>(type: T, data: DataFor<T>, dims?: readonly number[]): Tensor<T>;
  new (type: "float", data: DataFor<"float32">, dims?: readonly number[]): Tensor<"float32">;
  new (type: "double", data: DataFor<"float64">, dims?: readonly number[]): Tensor<"float64">;
  /** Makes a tensor whose type follows from the class of the array. */
  new <D extends Storage | Uint8ClampedArray | readonly string[] | readonly boolean[]>(
    data: D,
    dims?: readonly number[],
  ): Tensor<TypeOfData<D>>;
  /** Makes a tensor of a type that is known only when the program runs. */
  new (type: string, data: Exclude<TensorData, Uint8ClampedArray>, dims?: readonly number[]): Tensor;
  /** The prototype, for `instanceof`. */
  readonly prototype: Tensor;
  /** For insitu itself: a tensor over a view, without a copy where the view is its whole storage. */
  fromView(view: View): Tensor;
}

/** True for what `new Tensor` made: a proxy of a tensor, or an object that only inherits from it, is none. */
export const isTensor = (value: unknown): value is Tensor => CpuTensor.isTensor(value);

/** A tensor of a whole buffer that somebody else owns. */
export const lentTensor = (lender: Lender): Tensor => new CpuTensor(lender);

/** Who owns the memory that a tensor shows; undefined where it is the tensor's own, and for what is no tensor. */
export const lenderOf = (value: unknown): Lender | undefined => CpuTensor.lenderOf(value);

/** ONNX's own names that differ from onnxruntime's. */
const typeAliases: ReadonlyMap<string, ElementType> = new Map([
  ["float", "float32"],
  ["double", "float64"],
]);

const shapeText = (type: ElementType, dims: readonly number[]): string => `${type}[${dims.join(",")}]`;

/** The dims of a tensor that was given none. */
function dimsOfData(type: ElementType, storage: Storage): readonly number[] {
  if (isPacked(type) && storage.length > 0)
    refuse(`${type} needs dims: its ${storage.length} bytes do not tell them`, "TypeError");
  return [traitsOf(type).kind === "complex" ? Math.floor(storage.length / 2) : storage.length];
}

/** The shape that a lender tells, as nobody can change it. */
const lentDims = ({ shape }: Lender): readonly number[] => (Object.isFrozen(shape) ? shape : readDims(shape));

/** A copy of dims that nobody can change. */
function readDims(dims: unknown): readonly number[] {
  if (!Array.isArray(dims)) return refuse(`dims must be a number array, got ${valueText(dims)}`, "TypeError");
  const own = [...(dims as readonly unknown[])];
  const odd = own.findIndex((dim) => !Number.isSafeInteger(dim) || (dim as number) < 0);
  if (odd >= 0) {
    const [rule, as] = Number.isSafeInteger(own[odd])
      ? (["a non-negative integer", "RangeError"] as const)
      : (["an integer", "TypeError"] as const);
    refuse(`dims must be non-negative integers, got ${valueText(dims)}: dims[${odd}] must be ${rule}`, as);
  }
  return Object.freeze(own as number[]);
}

class CpuTensor<T extends ElementType> implements Tensor<T> {
  /** What debuggers print. */
  static readonly name: string = "Tensor";
  readonly type: T;
  readonly dims: readonly number[];
  readonly size: number;
  #data: DataTypes[T] | Lender | undefined;

  constructor(first: string | TensorData | Lender, second?: TensorData | readonly number[], third?: readonly number[]) {
    if (first instanceof Lender) {
      this.type = first.type as T;
      this.dims = second === undefined ? lentDims(first) : readDims(second);
      this.size = elementCount(this.dims);
      this.#data = first;
    } else {
      const named = typeof first === "string";
      const type = named ? (typeAliases.get(first) ?? first) : typeOfData(first);
      if (!isElementType(type)) refuse(`${valueText(type)} is not an element type of ONNX`, "TypeError");
      const storage = toStorage(type, (named ? second : first) as TensorData);
      const dims = named ? third : second;
      this.type = type as T;
      this.dims = readDims(dims === undefined ? dimsOfData(type, storage) : dims);
      this.size = elementCount(this.dims);
      const [expected, found] = [storageLengthOf(type, this.size), entriesOf(storage)];
      if (found !== expected) refuse(`${this} needs ${expected} entries of data, got ${found}`);
      // The class of the array was checked against the type above.
      this.#data = storage as DataTypes[T];
    }
    // A class made of this one may add to it; this one stays as it is.
    if (new.target === CpuTensor) Object.freeze(this);
  }

  static isTensor(value: unknown): value is Tensor {
    return typeof value === "object" && value !== null && #data in value;
  }

  static lenderOf(value: unknown): Lender | undefined {
    if (typeof value !== "object" || value === null || !(#data in value)) return undefined;
    const data = value.#data;
    return data instanceof Lender ? data : undefined;
  }

  static fromView(view: View): Tensor {
    const plain = coversStorage(view) ? view : cloneView(view);
    return new CpuTensor(view.type, plain.data, view.shape);
  }

  static async fromImage(): Promise<never> {
    return refuseFeature("fromImage");
  }

  static fromTexture(): never {
    return refuseFeature("fromTexture");
  }

  static fromGpuBuffer(): never {
    return refuseFeature("fromGpuBuffer");
  }

  static fromMLTensor(): never {
    return refuseFeature("fromMLTensor");
  }

  static fromPinnedBuffer(type: string, buffer: TensorData, dims?: readonly number[]): Tensor {
    return new CpuTensor(type, buffer, dims);
  }

  get texture(): never {
    return refuseFeature("texture");
  }

  get gpuBuffer(): never {
    return refuseFeature("gpuBuffer");
  }

  get mlTensor(): never {
    return refuseFeature("mlTensor");
  }

  toDataURL(): never {
    return refuseFeature("toDataURL");
  }

  toImageData(): never {
    return refuseFeature("toImageData");
  }

  toView(): View {
    const data = this.#held();
    if (data instanceof Lender) return new View(this.type, this.dims, this.#onHost(data).view().data);
    const expected = storageLengthOf(this.type, this.size);
    const found = entriesOf(data);
    if (found !== expected)
      refuse(`${this} has ${found} of its ${expected} entries: its buffer was detached, transferred or resized`);
    if (Array.isArray(data)) checkStrings(data);
    return new View(this.type, this.dims, data);
  }

  get data(): DataTypes[T] {
    const data = this.#held();
    return data instanceof Lender ? (this.#onHost(data).lend().data as DataTypes[T]) : data;
  }

  #onHost(lender: Lender): Lender {
    if (lender.location === "cpu") return lender;
    return refuse(`${this} is on a device (location "${lender.location}"): await tensor.getData() gives its elements`);
  }

  #held(): DataTypes[T] | Lender {
    return this.#data ?? refuse(`${this} was disposed`);
  }

  get location(): TensorLocation | "none" {
    try {
      if (this.#data instanceof Lender) this.#data.check();
    } catch {
      return "none";
    }
    if (this.#data === undefined) return "none";
    return this.#data instanceof Lender ? this.#data.location : "cpu";
  }

  async getData(): Promise<DataTypes[T]> {
    const data = this.#data;
    if (!(data instanceof Lender) || data.location === "cpu") return this.data;
    return (await data.read()).data as DataTypes[T];
  }

  dispose(): void {
    if (this.#data instanceof Lender) this.#data.disposed();
    this.#data = undefined;
  }

  reshape(dims: readonly number[]): Tensor<T> {
    const data = this.#held();
    const shape = readDims(dims);
    if (elementCount(shape) !== this.size)
      refuse(`${this} of ${this.size} elements cannot become [${shape.join(",")}]`);
    return data instanceof Lender ? new CpuTensor<T>(data.again(), shape) : new CpuTensor<T>(this.type, data, shape);
  }

  toString(): string {
    return shapeText(this.type, this.dims);
  }
}

/** Makes tensors. */
export const Tensor: TensorConstructor = CpuTensor as TensorConstructor;
