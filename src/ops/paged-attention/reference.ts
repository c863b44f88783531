/**
 * PagedAttention's reference implementation: the rows of each head, read through its table as float32, and attended to as Attention does in
 * float32. The result is rounded once, to the type of the queries.
 */
import { factOfView } from "../../graph/fact.js";
import type { CallContext } from "../../graph/op.js";
import { numberReader, numberWriter, readNumbers, writeNumbers } from "../../tensor/access.js";
import { View } from "../../tensor/view.js";
import { attend } from "../attention/attend.js";
import { headsView } from "../attention/heads.js";
import { headPlacesOf, type PagedLayout } from "../shared/paged/layouts.js";
import { type PagedAttributes, type PagedOperands, sizesOf } from "./sizes.js";
import { readStarts, readTables } from "./tables.js";

/** The call of the reference implementation. */
interface PagedReference extends CallContext {
  readonly inputs: PagedOperands<View>;
  readonly outputs: { readonly Y: View | undefined; readonly attention_sums: View | undefined };
  readonly attrs: PagedAttributes;
}

/** Computes every output that is asked for. */
export function attendPages(call: PagedReference): void {
  const { inputs, outputs, attrs } = call;
  const facts = {
    query: factOfView(inputs.query),
    key_cache: factOfView(inputs.key_cache),
    value_cache: factOfView(inputs.value_cache),
    block_tables: factOfView(inputs.block_tables),
    seq_lens: factOfView(inputs.seq_lens),
    key_scale: inputs.key_scale && factOfView(inputs.key_scale),
    value_scale: inputs.value_scale && factOfView(inputs.value_scale),
    query_starts: inputs.query_starts && factOfView(inputs.query_starts),
    head_sink: inputs.head_sink && factOfView(inputs.head_sink),
  };
  const known = { ...call, inputs: facts };
  const sizes = sizesOf(known);
  const tables = readTables(known, sizes)!;
  const starts = readStarts(known, sizes);
  const { batch, heads, kvHeads, columns, blockSize } = sizes as { [N in keyof typeof sizes]: number };
  const query = headsView(inputs.query, heads);
  const output = outputs.Y && headsView(outputs.Y, heads);
  const sums = outputs.attention_sums;
  if (sums !== undefined) writeNumbers(sums, new Float32Array(sums.size));
  const keys = pageReader(inputs.key_cache, inputs.key_scale, attrs.cache_mode, sizes.pageHeads as number);
  const values = pageReader(inputs.value_cache, inputs.value_scale, attrs.cache_mode, sizes.pageHeads as number);
  const group = heads / kvHeads;
  const sinks = inputs.head_sink && readNumbers(inputs.head_sink);
  for (let sample = 0; sample < batch; sample++) {
    const asked = queriesOf(query, sample, starts);
    const answered = output && queriesOf(output, sample, starts);
    const queries = asked.shape[2];
    if (queries === 0) continue;
    for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
      const own = sample * kvHeads + kvHead;
      const length = tables.lengths[tables.perHeadLengths ? own : sample];
      const start = (tables.perHeadTables ? own : sample) * columns;
      const slots = Array.from({ length }, (_, row) => {
        const column = Math.floor(row / blockSize);
        return tables.entries[start + column] * blockSize + (row - column * blockSize);
      });
      const pageHead = tables.perHeadTables ? 0 : kvHead;
      const part = asked.slice(1, kvHead * group, (kvHead + 1) * group);
      const result = output && View.allocate("float32", [1, group, queries, output.shape[3]]);
      const weights = sums && View.allocate("float32", [1, group, queries, length]);
      attend({
        queries: toFloat32(part),
        keys: [keys(slots, pageHead)],
        values: [values(slots, pageHead)],
        output: result,
        scores: weights && { view: weights, mode: 3 },
        placement: {
          queries,
          total: length,
          past: 0,
          nonpad: [length],
          causal: attrs.is_causal,
          left: attrs.left_window_size,
          right: attrs.right_window_size,
        },
        bias: undefined,
        scale: attrs.scale ?? 1 / Math.sqrt(query.shape[3]),
        softcap: attrs.softcap,
        softmaxType: "float32",
        sinks: sinks?.slice(kvHead * group, (kvHead + 1) * group),
      });
      if (answered !== undefined)
        writeNumbers(answered.slice(1, kvHead * group, (kvHead + 1) * group), readNumbers(result!));
      if (sums !== undefined) addUp(weights!, sums, sample, kvHead * group);
    }
  }
}

/** The queries of a sample in [batch, heads, rows, size], as [1, heads, queries, size]. */
function queriesOf(rows: View, sample: number, starts: ArrayLike<number> | undefined): View {
  if (starts === undefined) return rows.slice(0, sample, sample + 1);
  const [batch, heads, length, size] = rows.shape;
  const [batchStep, headStep, rowStep, step] = rows.strides;
  // One of the two is 1.
  const tokenStep = length === 1 ? batchStep : rowStep;
  const tokens = new View(rows.type, [1, heads, batch * length, size], rows.data, rows.offset, [
    0,
    headStep,
    tokenStep,
    step,
  ]);
  return tokens.slice(2, starts[sample], starts[sample + 1]);
}

function toFloat32(view: View): View {
  const copy = View.allocate("float32", view.shape);
  writeNumbers(copy, readNumbers(view));
  return copy;
}

/** A function that reads the rows of one head in the given slots, as float32 [1, 1, rows, size]; scales are multiplied in. */
function pageReader(
  cache: View,
  scale: View | undefined,
  layout: PagedLayout,
  heads: number,
): (slots: readonly number[], head: number) => View {
  const { size, blockSize, addressOf } = headPlacesOf(layout, cache, heads);
  const read = numberReader(cache);
  const readScale = scale && numberReader(scale);
  return (slots, head) => {
    const rows = View.allocate("float32", [1, 1, slots.length, size]);
    const data = rows.data as Float32Array;
    slots.forEach((slot, row) => {
      const block = Math.floor(slot / blockSize);
      const factor =
        readScale === undefined
          ? 1
          : readScale(
              scale!.offset +
                block * scale!.strides[0] +
                (slot - block * blockSize) * scale!.strides[1] +
                head * scale!.strides[2],
            );
      for (let i = 0; i < size; i++) data[row * size + i] = read(addressOf(slot, head, i)) * factor;
    });
    return rows;
  };
}

/** attention_sums[sample, head, row] = Σ weight of the row over the queries. */
function addUp(weights: View, sums: View, sample: number, firstHead: number): void {
  const [, heads, queries, length] = weights.shape;
  const data = weights.data as Float32Array;
  const write = numberWriter(sums);
  const [sampleStep, headStep, step] = sums.strides;
  for (let head = 0; head < heads; head++) {
    for (let row = 0; row < length; row++) {
      let sum = 0;
      for (let query = 0; query < queries; query++) sum += data[(head * queries + query) * length + row];
      write(sums.offset + sample * sampleStep + (firstHead + head) * headStep + row * step, sum);
    }
  }
}
