/** Sparse constants, made dense: ONNX's sparse_initializer and the sparse_value attribute. */
import { InsituError } from "../base/error.js";
import { mostDenseElements } from "../base/limits.js";
import type { ModelSparseTensor } from "../onnx/model.js";
import { tensorView } from "../onnx/model.js";
import { readIntegers } from "../tensor/access.js";
import { elementCopier } from "../tensor/copy.js";
import { elementCount, rowMajorStrides, View } from "../tensor/view.js";

/** What the sparse tensors of one model may still have when dense. */
export interface DenseAllowance {
  elements: number;
}

/** The dense tensor behind a sparse one. */
export function denseView(sparse: ModelSparseTensor, allowance: DenseAllowance): View {
  const { values, dims } = sparse;
  const label = `sparse tensor "${values.name}"`;
  const size = elementCount(dims);
  allowance.elements -= size;
  if (allowance.elements < 0)
    throw new InsituError(
      "out-of-memory",
      `${label}: with its [${dims.join(",")}] the sparse tensors of the model have more than ${mostDenseElements} elements when dense`,
    );
  const source = tensorView(values);
  const indices = tensorView(sparse.indices);
  const count = source.size;
  const linear = indices.shape.length === 1;
  if (
    !(linear
      ? indices.shape[0] === count
      : indices.shape.length === 2 && indices.shape[0] === count && indices.shape[1] === dims.length)
  ) {
    throw new InsituError(
      "invalid-graph",
      `${label}: indices must be [${count}] or [${count},${dims.length}], got ${indices}`,
    );
  }
  const at = readIntegers(indices);
  const dense = View.allocate(source.type, dims);
  const strides = rowMajorStrides(dims);
  const copy = elementCopier(source, dense);
  for (let i = 0; i < count; i++) {
    let position = linear ? at[i] : 0;
    if (!linear) {
      dims.forEach((dim, axis) => {
        const index = at[i * dims.length + axis];
        if (index < 0 || index >= dim)
          throw new InsituError(
            "invalid-graph",
            `${label}: index ${index} lies outside dimension ${axis} of size ${dim}`,
          );
        position += index * strides[axis];
      });
    }
    if (position < 0 || position >= size)
      throw new InsituError("invalid-graph", `${label}: index ${position} lies outside its ${size} elements`);
    copy(i, position, 1);
  }
  return dense;
}
