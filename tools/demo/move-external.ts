/** Moves weights between a model and an external file, on paper: what is written where is the caller's to do. */
import { InsituError } from "#insitu/base/error.js";
import { mapTensors } from "#insitu/onnx/map-tensors.js";
import type { Model } from "#insitu/onnx/model.js";
import { tensorBytes } from "#insitu/onnx/write-tensor.js";

/** What to move out. */
interface MoveOptions {
  /** The file's name, relative to the model's folder. */
  readonly location: string;
  /** Tensors of at least this many bytes are moved; 1024 unless told. */
  readonly threshold?: number;
  /** Each tensor starts at a multiple of this many bytes; 4096 unless told, for memory mapping. */
  readonly alignment?: number;
}

/** A model whose large weights lie in an external file, and that file's bytes. */
interface MovedWeights {
  readonly model: Model;
  /** The file's content, in pieces to be written one after another; weights share the tensors' memory. */
  readonly pieces: readonly Uint8Array[];
}

/** The model with its large weights referring to one external file. Tensors that are external already, loaded or not, stay. */
export function moveToExternalData(model: Model, options: MoveOptions): MovedWeights {
  const { location, threshold = 1024, alignment = 4096 } = options;
  if (location === "")
    throw new InsituError("invalid-argument", "moveToExternalData: location must name a file, got an empty string");
  if (!Number.isSafeInteger(alignment) || alignment < 1) {
    throw new InsituError(
      "invalid-argument",
      `moveToExternalData: alignment must be a positive integer, got ${alignment}`,
    );
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  const moved = mapTensors(model, (tensor) => {
    if (tensor.external !== undefined || tensor.type === "string") return tensor;
    const bytes = tensorBytes(tensor);
    if (bytes.length < threshold || bytes.length === 0) return tensor;
    const offset = Math.ceil(size / alignment) * alignment;
    if (offset > size) pieces.push(new Uint8Array(offset - size));
    pieces.push(bytes);
    size = offset + bytes.length;
    return { ...tensor, external: { location, offset, length: bytes.length } };
  });
  return { model: moved, pieces };
}

/** The model with every loaded external tensor kept inside it. */
export function moveIntoModel(model: Model): Model {
  return mapTensors(model, (tensor) =>
    tensor.external === undefined || tensor.data === undefined ? tensor : { ...tensor, external: undefined },
  );
}
