/** MelWeightMatrix: weights that gather the bins of a spectrum into triangles, evenly spaced on the mel scale. */
import { elementType } from "../../graph/attribute.js";
import { addDims, type Dim, floorDivideDims, isKnown, unknownDim } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import { type CallContext, defineOp, tensor } from "../../graph/op.js";
import { readIntegers, readNumbers, writeNumbers } from "../../tensor/access.js";
import { float64Scratch } from "../shared/loops/scratch.js";
import { checkOneElement, scalarOf } from "../shared/rules/operands.js";
import { floats, indexTypes, numeric } from "../shared/rules/types.js";

const melOf = (hertz: number): number => 2595 * Math.log10(1 + hertz / 700);
const hertzOf = (mel: number): number => 700 * (10 ** (mel / 2595) - 1);

function countOf(call: CallContext, name: string, fact: Fact): Dim {
  const count = scalarOf(call, name, fact) ?? unknownDim();
  call.check(!isKnown(count) || count >= 1, () => `${name} must be at least 1, got ${count}`, "invalid-argument");
  return count;
}

/** The weights [dft_length / 2 + 1, num_mel_bins]. */
export const MelWeightMatrix = defineOp({
  name: "MelWeightMatrix",
  since: 17,
  types: { T1: indexTypes, T2: floats, T3: numeric },
  inputs: {
    num_mel_bins: tensor("T1"),
    dft_length: tensor("T1"),
    sample_rate: tensor("T1"),
    lower_edge_hertz: tensor("T2"),
    upper_edge_hertz: tensor("T2"),
  },
  outputs: { output: tensor("T3") },
  attrs: { output_datatype: elementType("float32") },
  infer(call) {
    const { num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz } = call.inputs;
    const bins = countOf(call, "num_mel_bins", num_mel_bins);
    const length = countOf(call, "dft_length", dft_length);
    countOf(call, "sample_rate", sample_rate);
    checkOneElement(call, "lower_edge_hertz", lower_edge_hertz);
    checkOneElement(call, "upper_edge_hertz", upper_edge_hertz);
    const shape = [addDims(floorDivideDims(length, 2), 1), bins];
    return { output: { type: call.attrs.output_datatype, shape } };
  },
  reference({ inputs, outputs: { output } }) {
    const [rows, columns] = output.shape;
    const [length] = readIntegers(inputs.dft_length);
    const [rate] = readIntegers(inputs.sample_rate);
    const [low, high] = [
      melOf(readNumbers(inputs.lower_edge_hertz)[0]),
      melOf(readNumbers(inputs.upper_edge_hertz)[0]),
    ];
    const step = (high - low) / (columns + 2);
    const edge = (index: number): number => Math.floor(((length + 1) * hertzOf(low + index * step)) / rate);
    const result = float64Scratch(rows * columns);
    const write = (row: number, column: number, weight: number): void => {
      if (row >= 0 && row < rows) result[row * columns + column] = weight;
    };
    for (let column = 0; column < columns; column++) {
      const [left, center, right] = [edge(column), edge(column + 1), edge(column + 2)];
      if (left === center) write(center, column, 1);
      else
        for (let row = Math.max(left, 0); row <= Math.min(center, rows); row++)
          write(row, column, (row - left) / (center - left));
      for (let row = Math.max(center, 0); row < Math.min(right, rows); row++)
        write(row, column, (right - row) / (right - center));
    }
    writeNumbers(output, result);
  },
});
