// Calls of CachedAttention over pages, with anything in the rows that nobody wrote.
import type { Platform } from "../../../src/base/platform.js";
import { float } from "../../../src/onnx/build.js";
import { numberWriter } from "../../../src/tensor/access.js";
import type { View } from "../../../src/tensor/view.js";
import { integers, type OneNode, randomNumbers } from "./one-node.js";

/** Sizes and layouts. */
export interface Form {
  readonly type: "float32" | "float16";
  readonly layout: "Norm" | "NHSD";
  readonly size: number;
  readonly heads: number;
  readonly shared: number;
  /** Pairs that are turned; none where left out. */
  readonly pairs?: number;
  readonly norm?: boolean;
  readonly sinks?: boolean;
  /** Rows of a block: 16 where left out. */
  readonly blockSize?: number;
  readonly packed?: boolean;
  /** True if tables and weights of norms are the model's; else they are fed. */
  readonly constant?: boolean;
  readonly attrs?: OneNode["attrs"];
  readonly options?: object;
  /** Where there is a GPU that is not the machine's own. */
  readonly place?: Platform;
}

/** How many rows there are, and how many come. */
export interface Step {
  /** Rows of each sample before this step, and how many it adds. */
  readonly before: readonly number[];
  readonly length: number;
  /** In a packed batch: how many each sample adds, and where they stand. */
  readonly added?: { readonly each: readonly number[]; readonly as: "rows" | "samples" };
  /** Tokens that are not written, by position among all. */
  readonly skipped?: readonly number[];
}

/** A call whose samples lie in blocks of their own. */
export function pagedCall(random: () => number, form: Form, { before, length, added, skipped = [] }: Step): OneNode {
  const { type, layout, size, heads, shared, pairs, norm = false, packed = false, attrs = {}, blockSize = 16 } = form;
  const batch = before.length;
  const each = added?.each ?? before.map(() => length);
  const starts = each.reduce((all, count) => [...all, all.at(-1)! + count], [0]);
  const tokens = starts.at(-1)!;
  const shape = added === undefined ? [batch, length] : added.as === "rows" ? [1, tokens] : [tokens, 1];
  const columns = Math.ceil((Math.max(...before) + Math.max(...each)) / blockSize) + 1;
  const blocks = batch * columns + 2;
  // Blocks of samples lie in turn, from the last one down.
  const tables = Array.from({ length: batch * columns }, (_, at) => {
    const [sample, column] = [Math.floor(at / columns), at % columns];
    return blocks - 1 - (column * batch + sample);
  });
  const slotOf = (sample: number, row: number): number =>
    tables[sample * columns + Math.floor(row / blockSize)] * blockSize + (row % blockSize);
  const held = new Set(
    before.flatMap((count, sample) => Array.from({ length: count }, (_, row) => slotOf(sample, row))),
  );
  const pages = (): View => {
    const shape = layout === "Norm" ? [blocks, blockSize, shared, size] : [blocks, shared, blockSize, size];
    const view = randomNumbers(random, type, shape);
    const write = numberWriter(view);
    for (let at = 0; at < view.size; at++) {
      const block = Math.floor(at / (blockSize * shared * size));
      const row = layout === "Norm" ? Math.floor(at / (shared * size)) % blockSize : Math.floor(at / size) % blockSize;
      if (!held.has(block * blockSize + row)) write(at, NaN);
    }
    return view;
  };
  const make = (shape: readonly number[]): View => randomNumbers(random, type, shape);
  const rows = (count: number): View => make([...shape, count * size]);
  const table = (): View | undefined => (pairs === undefined ? undefined : make([40, pairs]));
  const slots = before.flatMap((count, sample) =>
    Array.from({ length: each[sample] }, (_, at) =>
      skipped.includes(starts[sample] + at) ? -1 : slotOf(sample, count + at),
    ),
  );
  // A token that is not written is no row of its sample.
  const lengths = before.map((count, sample) => count + (skipped.includes(starts[sample]) ? 0 : each[sample]));
  const positions = Array.from({ length: tokens }, (_, at) => (5 * at + 3) % 40);
  return {
    op: "CachedAttention",
    domain: "insitu",
    opset: 1,
    attrs: {
      q_num_heads: heads,
      kv_num_heads: shared,
      head_size: size,
      cache_mode: layout,
      is_causal: 1,
      scale: float(0.3),
      ...(pairs === undefined ? {} : { rotary_embedding_dim: 2 * pairs }),
      ...attrs,
    },
    inputs: [
      rows(packed ? heads + 2 * shared : heads),
      packed ? undefined : rows(shared),
      packed ? undefined : rows(shared),
      pages(),
      pages(),
      undefined,
      undefined,
      table(),
      table(),
      pairs === undefined ? undefined : integers("int64", positions, shape),
      norm ? make([size]) : undefined,
      norm ? make([size]) : undefined,
      integers("int64", slots),
      integers("int64", tables, [batch, columns]),
      integers("int64", lengths),
      added && integers("int64", starts),
      form.sinks === true ? make([heads]) : undefined,
    ],
    outputs: [true, true, true],
    held: { 3: 1, 4: 2 },
    ...(form.constant === true ? { constants: [7, 8, 10, 11] } : {}),
  };
}
