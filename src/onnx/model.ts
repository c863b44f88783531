/**
 * A model as the rest of insitu sees it: plain, read-only data, with no trace of protobuf.
 * Knows no operator and infers nothing; names may dangle, graphs may be wrong: graph/ checks that.
 *
 * Edit by making new objects (`{ ...node, inputs }`), never by writing into these: the writer tells by identity what
 * changed, and gives back every byte that did not.
 */
import { InsituError } from "../base/error.js";
import type { ElementType, Storage } from "../tensor/element-type.js";
import type { LaterElements } from "../tensor/deferred.js";
import { View } from "../tensor/view.js";
import type { Source } from "./source.js";

/** What every part of a model that was read from bytes carries along. */
interface Sourced {
  /** The bytes this was read from; keeps what these interfaces do not name. Copy it along, never build it. */
  readonly source?: Source;
}

/** A whole ONNX model. */
export interface Model extends Sourced {
  readonly irVersion: number;
  readonly producerName: string;
  readonly producerVersion: string;
  readonly domain: string;
  readonly modelVersion: number;
  readonly docString: string;
  /** Version by domain; `""` is ai.onnx. */
  readonly opsets: ReadonlyMap<string, number>;
  readonly graph: ModelGraph;
  readonly functions: readonly ModelFunction[];
  readonly metadata: ReadonlyMap<string, string>;
  /** Where the model was read from: external data is looked for beside it. */
  readonly path?: string;
}

/** True for what has the outline of a model: for what a caller's own step made of one. */
export function isModel(value: unknown): value is Model {
  const { opsets, functions, graph } = Object(value) as Partial<Model>;
  const { nodes, inputs, outputs, initializers } = Object(graph) as Partial<ModelGraph>;
  return (
    opsets instanceof Map && [functions, nodes, inputs, outputs, initializers].every((list) => Array.isArray(list))
  );
}

/** A main graph or the body of an attribute. */
export interface ModelGraph extends Sourced {
  readonly name: string;
  readonly nodes: readonly ModelNode[];
  readonly inputs: readonly ModelValue[];
  readonly outputs: readonly ModelValue[];
  readonly valueInfo: readonly ModelValue[];
  readonly initializers: readonly ModelTensor[];
  readonly sparseInitializers: readonly ModelSparseTensor[];
  readonly metadata: ReadonlyMap<string, string>;
  readonly docString: string;
}

/** A model-local function. */
export interface ModelFunction extends Sourced {
  readonly domain: string;
  readonly name: string;
  readonly overload: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Attributes without a default. */
  readonly attributes: readonly string[];
  /** Attributes with a default, by name. */
  readonly attributeDefaults: ReadonlyMap<string, ModelAttribute>;
  readonly nodes: readonly ModelNode[];
  /** Version by domain; `""` is ai.onnx. */
  readonly opsets: ReadonlyMap<string, number>;
  readonly valueInfo: readonly ModelValue[];
  readonly metadata: ReadonlyMap<string, string>;
  readonly docString: string;
}

/** One call of an operator or a function; an empty name among inputs or outputs is an omitted one. */
export interface ModelNode extends Sourced {
  readonly name: string;
  readonly opType: string;
  /** `""` is ai.onnx. */
  readonly domain: string;
  readonly overload: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: ReadonlyMap<string, ModelAttribute>;
  readonly metadata: ReadonlyMap<string, string>;
  readonly docString: string;
}

/** A named value with what is declared of it. */
export interface ModelValue extends Sourced {
  readonly name: string;
  readonly type?: ModelType;
  readonly metadata: ReadonlyMap<string, string>;
  readonly docString: string;
}

/** A dimension: its size, its name, or nothing known. */
export type ModelDimension = number | string | undefined;

/** The declared type of a value; an absent shape is an unknown rank. */
export type ModelType = Sourced & { readonly denotation?: string } & (
    | {
        readonly kind: "tensor" | "sparse";
        readonly elementType?: ElementType;
        readonly shape?: readonly ModelDimension[];
      }
    | { readonly kind: "sequence" | "optional"; readonly element?: ModelType }
    | { readonly kind: "map"; readonly key?: ElementType; readonly value?: ModelType }
    | { readonly kind: "opaque"; readonly domain: string; readonly name: string }
    | { readonly kind: "undefined" }
  );

/** The kinds of value an attribute can have. */
export type AttributeKind = Exclude<ModelAttribute["kind"], "attribute-reference">;

/** An attribute, by kind. */
export type ModelAttribute = Sourced & { readonly name: string; readonly docString: string } & (
    | { readonly kind: "int"; readonly value: bigint }
    | { readonly kind: "float"; readonly value: number }
    /** `bytes` is there only where they are not valid UTF-8. */
    | { readonly kind: "string"; readonly value: string; readonly bytes?: Uint8Array }
    | { readonly kind: "tensor"; readonly value: ModelTensor }
    | { readonly kind: "graph"; readonly value: ModelGraph }
    | { readonly kind: "sparse-tensor"; readonly value: ModelSparseTensor }
    | { readonly kind: "type"; readonly value: ModelType }
    | { readonly kind: "ints"; readonly value: BigInt64Array }
    | { readonly kind: "floats"; readonly value: Float32Array }
    | { readonly kind: "strings"; readonly value: readonly string[]; readonly bytes?: readonly Uint8Array[] }
    | { readonly kind: "tensors"; readonly value: readonly ModelTensor[] }
    | { readonly kind: "graphs"; readonly value: readonly ModelGraph[] }
    | { readonly kind: "sparse-tensors"; readonly value: readonly ModelSparseTensor[] }
    | { readonly kind: "types"; readonly value: readonly ModelType[] }
    /** In a function body: the value of the function's own attribute `refName`, of the kind `declared`. */
    | { readonly kind: "attribute-reference"; readonly refName: string; readonly declared?: AttributeKind }
  );

/** Where the bytes of an external tensor lie: without a length, to the end of what the dims ask for. */
export interface ExternalReference {
  /** Relative to the model's folder. */
  readonly location: string;
  readonly offset: number;
  readonly length?: number;
}

/** A constant tensor. */
export interface ModelTensor extends Sourced {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: readonly number[];
  /** The elements, packed as `tensor/element-type.ts` says; absent while they are external and not loaded. */
  readonly data?: Storage;
  /** The elements where they come later: on their way, or in their file until somebody wants them. `data` throws `AbsentElements` till then. */
  readonly deferred?: LaterElements;
  /** The file the elements belong to; a tensor that has one is written as a reference, loaded or not. */
  readonly external?: ExternalReference;
  readonly metadata: ReadonlyMap<string, string>;
  readonly docString: string;
}

/** A constant tensor given by its non-zero elements. */
export interface ModelSparseTensor extends Sourced {
  /** [count]; its name is the tensor's. */
  readonly values: ModelTensor;
  /** int64 [count, rank] or [count]. */
  readonly indices: ModelTensor;
  readonly dims: readonly number[];
}

/** The elements as kernels see them: no copy. Throws `external-data` when they were not loaded. */
export function tensorView(tensor: ModelTensor): View {
  if (tensor.deferred !== undefined) return tensor.deferred.viewAs(tensor.dims);
  if (tensor.data === undefined) {
    const where = tensor.external === undefined ? "" : ` in "${tensor.external.location}"`;
    throw new InsituError("external-data", `tensor "${tensor.name}": its data${where} was not loaded`);
  }
  return new View(tensor.type, tensor.dims, tensor.data);
}
