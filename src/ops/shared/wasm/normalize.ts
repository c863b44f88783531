/** Normalisations of rows as jobs: what the fast paths of LayerNormalization, RMSNormalization and their kin share. */
import type { Operand } from "../../../graph/kernel.js";
import { type Recorder, wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { InsituError } from "../../../base/error.js";
import { byteLengthOf } from "../../../tensor/element-type.js";
import { type Heads, temporaryHeads } from "./attention.js";
import { mostJobs, type Rows, rowsOf } from "./layout.js";
import { joinDimensions, productOf } from "../rules/layout.js";
import { hasRowFactors, type RowNorm } from "../rules/row-norm.js";
import { codeOf, oneFloatType, partsFor } from "./work.js";

/** Longer rows do not fit into the kernels' scratch. */
const longestRow = 1 << 16;

/** Fast paths of operators that normalise. */
export const normalization = wasmFamily<RowNorm>({
  accepts: normalizable,
  record: (job, recorder) => recordNormalization(recorder, job),
});

/** True if kernels can normalise this, else why not. */
function normalizable(job: RowNorm): true | string {
  const { source, skip, addend, sum, scale, bias, output, mean, inverse, axis } = job;
  const types = oneFloatType([source, skip, addend, sum, scale, bias, output]);
  if (types !== true) return types;
  const inner = source.shape.slice(axis);
  if (productOf(inner) > longestRow) return `rows of ${productOf(inner)} are too long`;
  if (!hasRowFactors(job)) return "scale or bias differ between rows";
  const layout = layoutOf(job);
  if (typeof layout === "string") return layout;
  for (const statistic of [mean, inverse]) {
    if (statistic === undefined) continue;
    if (statistic.type !== "float32") return `there is no kernel for statistics of ${statistic.type}`;
    if (source.view.size === 0) return "statistics of empty rows are asked for";
    if (layout.starts.length > 1 || !statistic.contiguous) return "statistics of rows that lie apart are asked for";
  }
  return true;
}

/** The operands that are walked row by row: output, source, skip, sum. */
const walked = ({ output, source, skip, sum }: RowNorm): readonly Operand[] => [
  output,
  source,
  skip ?? source,
  sum ?? source,
];

function layoutOf(job: RowNorm): Rows | string {
  const { source, axis } = job;
  const strides = walked(job).map(({ view }) => view.broadcastTo(source.shape).strides);
  return rowLayout(source.shape, strides, axis);
}

/** Operands as rows of the axes from `axis` on, which must lie together in each. */
export function rowLayout(
  shape: readonly number[],
  strides: readonly (readonly number[])[],
  axis: number,
): Rows | string {
  const [inner, outer] = [
    joinDimensions(
      shape.slice(axis),
      strides.map((own) => own.slice(axis)),
    ),
    joinDimensions(
      shape.slice(0, axis),
      strides.map((own) => own.slice(0, axis)),
    ),
  ];
  if (inner.shape.length > 1 || inner.strides.some((own) => own.length === 1 && own[0] !== 1)) return "rows have gaps";
  return rowsOf(outer) ?? "rows lie apart along too many dimensions";
}

/** Heads of the same sizes, each brought to a root mean square of 1 and scaled by a weight for each of its places, in memory of the program's own. */
export function normalizeHeads(recorder: Recorder, from: Heads, weight: Operand, epsilon: number): Heads {
  const { batch, heads, rows, size } = from;
  // Laid as most sources are, so that all heads are rows at one distance.
  const to = { ...temporaryHeads(recorder, from), sample: rows * heads * size, head: size, row: heads * size };
  const strides = [to, from].map(({ sample, row, head }) => [sample, row, head]);
  const outer = joinDimensions([batch, rows, heads], strides);
  const layout = rowsOf(outer);
  if (layout === undefined) throw new InsituError("internal", "heads lie apart along too many dimensions");
  const address = ({ address: start, type }: Heads, at: number): number => start + byteLengthOf(type, at);
  for (const [target, source] of layout.starts)
    recorder.run(
      "rmsNormalize",
      {
        source: address(from, source),
        skip: 0,
        sum: 0,
        scale: recorder.address(weight),
        bias: 0,
        output: address(to, target),
        type: codeOf(from.type),
        rows: layout.rows,
        size,
        sourceRow: layout.rowStrides[1],
        skipRow: 0,
        sumRow: 0,
        outputRow: layout.rowStrides[0],
        epsilon,
        addend: 0,
        mean: 0,
        inverse: 0,
      },
      partsFor(recorder, layout.rows * (20 + size * 0.6)),
    );
  return to;
}

/** True if heads of this many tokens can be normalised: rows that lie apart become jobs of their own. */
export const acceptsHeads = ({ shape: [batch, heads, rows] }: { readonly shape: readonly number[] }): boolean =>
  Math.min(heads, batch * rows) <= mostJobs && (batch === 1 || rows === 1 || batch * Math.min(heads, rows) <= mostJobs);

/** Queues a normalisation that `normalizable` holds of. */
function recordNormalization(recorder: Recorder, job: RowNorm): void {
  const { centered, source, skip, addend, sum, scale, bias, output, mean, inverse, axis, epsilon } = job;
  const layout = layoutOf(job);
  const size = productOf(source.shape.slice(axis));
  if (typeof layout === "string" || source.view.size === 0) return;
  const addressOf = (operand: Operand | undefined): number => (operand === undefined ? 0 : recorder.address(operand));
  const [outputRow, sourceRow, skipRow, sumRow] = layout.rowStrides;
  for (const [outputStart, sourceStart, skipStart, sumStart] of layout.starts) {
    const placeOf = (operand: Operand | undefined, start: number): number =>
      operand === undefined ? 0 : recorder.address(operand) + byteLengthOf(operand.type, start);
    recorder.run(
      centered ? "layerNormalize" : "rmsNormalize",
      {
        source: placeOf(source, sourceStart),
        skip: placeOf(skip, skipStart),
        sum: placeOf(sum, sumStart),
        scale: addressOf(scale),
        bias: addressOf(bias),
        output: placeOf(output, outputStart),
        type: codeOf(source.type),
        rows: layout.rows,
        size,
        sourceRow,
        skipRow,
        sumRow,
        outputRow,
        epsilon,
        addend: addressOf(addend),
        mean: addressOf(mean),
        inverse: addressOf(inverse),
      },
      partsFor(recorder, layout.rows * (20 + size * 0.6)),
    );
  }
}
