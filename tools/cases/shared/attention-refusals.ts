/** What Attention refuses, as cases. */
import { of, type OpCase } from "./case.js";
import type { View } from "#insitu/tensor/view.js";

const zeros = (...shape: number[]): View =>
  of("float32", shape, new Array<number>(shape.reduce((a, b) => a * b)).fill(0));
const row = zeros(1, 1, 1, 2); // [batch, heads, length, size]
const rows = zeros(1, 1, 2, 2);
const packed = zeros(1, 1, 2); // [batch, length, heads · size]
const nonpad = (...values: number[]): View => of("int64", [values.length], values);

/** One refusal: inputs in ONNX's order, what must be said, and where it matters the attributes, outputs and opset. */
const refuse = (
  shows: string,
  throws: RegExp,
  inputs: OpCase["inputs"],
  options: Pick<OpCase, "attrs" | "outputs"> & { opset?: number } = {},
): OpCase => ({ op: "Attention", opset: 24, shows, throws, inputs, ...options });

export const refusals: readonly OpCase[] = [
  refuse(
    "packed operands without q_num_heads",
    /Q of 3 dimensions needs the attribute q_num_heads/,
    [packed, packed, packed],
    { attrs: { kv_num_heads: 1 } },
  ),
  refuse(
    "packed operands without kv_num_heads",
    /K of 3 dimensions needs the attribute kv_num_heads/,
    [packed, packed, packed],
    { attrs: { q_num_heads: 1 } },
  ),
  refuse(
    "head counts that do not divide",
    /q_num_heads must divide the last dimension of Q, got 3 and 2/,
    [packed, packed, packed],
    { attrs: { q_num_heads: 3, kv_num_heads: 1 } },
  ),
  refuse("a head count of 0", /kv_num_heads must be positive, got 0/, [packed, packed, packed], {
    attrs: { q_num_heads: 1, kv_num_heads: 0 },
  }),
  refuse(
    "head counts beside 4 dimensions from opset 25 on",
    /q_num_heads must not be given for operands of 4 dimensions/,
    [row, row, row],
    { opset: 25, attrs: { q_num_heads: 1, kv_num_heads: 1 } },
  ),
  refuse(
    "head counts that contradict 4 dimensions",
    /kv_num_heads must be the number of heads of K, got 1 and 2/,
    [row, row, row],
    { attrs: { q_num_heads: 1, kv_num_heads: 2 } },
  ),
  refuse("operands of different ranks", /Q, K and V must have the same number of dimensions/, [row, packed, row], {
    attrs: { q_num_heads: 1, kv_num_heads: 1 },
  }),
  refuse("operands of 2 dimensions", /Q must have 3 or 4 dimensions, got float32\[1,2\]/, [zeros(1, 2), row, row]),
  refuse("heads that share unevenly", /heads of Q must be a multiple of that of K, got 3 and 2/, [
    zeros(1, 3, 1, 2),
    zeros(1, 2, 1, 2),
    zeros(1, 2, 1, 2),
  ]),
  refuse("head sizes of Q and K", /same head size, got 2 and 3/, [row, zeros(1, 1, 1, 3), row]),
  refuse("lengths of K and V", /K and V must have the same length, got 2 and 1/, [row, rows, row]),
  refuse("batches", /must agree in the batch, got 1 and 2/, [row, zeros(2, 1, 1, 2), zeros(2, 1, 1, 2)]),
  refuse("a past of other heads", /same number of heads, got 1 and 2/, [
    row,
    row,
    row,
    undefined,
    zeros(1, 2, 1, 2),
    zeros(1, 2, 1, 2),
  ]),
  refuse("pasts of different lengths", /past_key and past_value must have the same length, got 2 and 1/, [
    row,
    row,
    row,
    undefined,
    rows,
    row,
  ]),
  refuse("a past of 3 dimensions", /past_key must have 4 dimensions, got float32\[1,1,2\]/, [
    row,
    row,
    row,
    undefined,
    packed,
    row,
  ]),
  refuse("past_key alone", /past_key and past_value must be given together/, [row, row, row, undefined, row]),
  refuse("present_key alone", /present_key and present_value must be asked for together/, [row, row, row], {
    outputs: [row, row],
  }),
  refuse("nonpad_kv_seqlen beside a past", /must not be combined with past_key/, [
    row,
    row,
    row,
    undefined,
    row,
    row,
    nonpad(1),
  ]),
  refuse(
    "nonpad_kv_seqlen beside a present",
    /must not be combined with present_key/,
    [row, row, row, undefined, undefined, undefined, nonpad(1)],
    { outputs: [row, row, row] },
  ),
  refuse("more valid keys than there are", /not be larger than the 2 keys of K, got nonpad_kv_seqlen\[0\] = 3/, [
    row,
    rows,
    rows,
    undefined,
    undefined,
    undefined,
    nonpad(3),
  ]),
  refuse("a negative count", /must not be negative, got nonpad_kv_seqlen\[0\] = -1/, [
    row,
    rows,
    rows,
    undefined,
    undefined,
    undefined,
    nonpad(-1),
  ]),
  refuse("counts of another batch", /one entry a sample of the batch, got 2 and 1/, [
    row,
    rows,
    rows,
    undefined,
    undefined,
    undefined,
    nonpad(1, 1),
  ]),
  refuse("a mask longer than the keys", /attn_mask \[1,3\] must broadcast to .*it covers 3 keys of 2/, [
    row,
    rows,
    rows,
    zeros(1, 3),
  ]),
  refuse(
    "a short mask before opset 24",
    /attn_mask \[1,2\] must broadcast to .*2 against 3/,
    [row, zeros(1, 1, 3, 2), zeros(1, 1, 3, 2), zeros(1, 2)],
    { opset: 23 },
  ),
  refuse("a mask for other queries", /attn_mask \[2,2\] must broadcast to .*2 against 1/, [
    row,
    rows,
    rows,
    zeros(2, 2),
  ]),
  refuse("a mask of 5 dimensions", /more than 4 dimensions/, [row, rows, rows, zeros(1, 1, 1, 1, 2)]),
  refuse("an unknown mode", /qk_matmul_output_mode must be 0, 1, 2 or 3, got 4/, [row, row, row], {
    attrs: { qk_matmul_output_mode: 4 },
  }),
  refuse("a negative softcap", /softcap must not be negative, got -1/, [row, row, row], {
    attrs: { softcap: { float: -1 } },
  }),
  refuse("softmax in integers", /softmax_precision must be .*, got int64/, [row, row, row], {
    attrs: { softmax_precision: 7 },
  }),
  refuse("a window below -1", /left_window_size must be -1 or not negative, got -2/, [row, row, row], {
    opset: 25,
    attrs: { left_window_size: -2 },
  }),
  refuse("windows before opset 25", /unknown attribute "left_window_size"/, [row, row, row], {
    attrs: { left_window_size: 1 },
  }),
  refuse(
    "nonpad_kv_seqlen before opset 24",
    /at most 6 inputs, got 7/,
    [row, row, row, undefined, undefined, undefined, nonpad(1)],
    { opset: 23 },
  ),
  refuse("queries and keys of different types", /type/, [row, of("float16", [1, 1, 1, 2], [0, 0]), row]),
];
