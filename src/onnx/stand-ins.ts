/**
 * Zeros in the place of large weights that lie in other files, so that a model larger than memory can be looked at. They share one range of
 * memory that nobody touches, and are written back as the references they are.
 */
import { InsituError } from "../base/error.js";
import { arrayConstructorOf, byteLengthOf, storageLengthOf } from "../tensor/element-type.js";
import { elementCount, largestByteLength } from "../tensor/view.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";

/** The model with stand-ins for external weights of more than `mostRead` elements; whole numbers may decide shapes and are left to be loaded. */
export function withStandIns(model: Model, mostRead: number): Model {
  const staysOutside = ({ external, data, type, dims }: ModelTensor): boolean =>
    external !== undefined &&
    data === undefined &&
    !["string", "int32", "int64"].includes(type) &&
    elementCount(dims) > mostRead;
  let most = 0;
  mapTensors(model, (tensor) => {
    if (staysOutside(tensor)) most = Math.max(most, byteLengthOf(tensor.type, elementCount(tensor.dims)));
    return tensor;
  });
  if (most > largestByteLength)
    throw new InsituError(
      "out-of-memory",
      `a weight of ${most} bytes is larger than the ${largestByteLength} that one tensor may take`,
    );
  const zeros = new ArrayBuffer(Math.ceil(most / 8) * 8);
  return mapTensors(model, (tensor) => {
    if (!staysOutside(tensor) || tensor.type === "string") return tensor;
    const length = storageLengthOf(tensor.type, elementCount(tensor.dims));
    return { ...tensor, data: new (arrayConstructorOf(tensor.type))(zeros, 0, length) };
  });
}
