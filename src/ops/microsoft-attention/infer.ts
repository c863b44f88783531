/** The shape rule of com.microsoft's Attention: sizes, masks, the past, and every check that needs no data. */
import { addDims, type Dim, isKnown, multiplyDims, type Shape, shapeText, unknownDim } from "../../graph/dim.js";
import { type Fact, factText, integersOf, knownIntegers } from "../../graph/fact.js";
import type { OutputFact } from "../../graph/op.js";
import { checkOneElement } from "../shared/rules/operands.js";
import { checkRank, unifyDims } from "../shared/rules/shapes.js";
import { type AttentionCall, widthsOf } from "./call.js";

type Call = AttentionCall<Fact>;

/** Types and shapes of both outputs. */
export function inferAttention(call: Call): { readonly output?: OutputFact; readonly present?: OutputFact } {
  const { inputs, attrs } = call;
  const { num_heads: heads } = attrs;
  call.check(heads > 0, () => `num_heads must be positive, got ${heads}`, "invalid-argument");
  call.check(
    !attrs.do_rotary,
    "do_rotary is not supported, nor does onnxruntime's CPU have it: use MultiHeadAttention behind RotaryEmbedding",
    "unsupported-type",
  );
  checkRank(call, "input", inputs.input, 3);
  checkRank(call, "weights", inputs.weights, 2);
  checkRank(call, "bias", inputs.bias, 1);
  checkRank(call, "past", inputs.past, 5);
  const [batch, length, hidden] = inputs.input.shape ?? [unknownDim(), unknownDim(), unknownDim()];
  const [rows, columns] = inputs.weights.shape ?? [unknownDim(), inputs.bias?.shape?.[0] ?? unknownDim()];
  unifyDims(call, rows, hidden, "weights must have a row for each number of input");
  if (inputs.bias?.shape !== undefined)
    unifyDims(call, inputs.bias.shape[0], columns, "bias must have an entry for each column of weights");
  const { size, valueSize } = headSizes(call, columns);
  const { past, capacity } = checkPast(call, batch, size);
  const total = addDims(past, length);
  checkMask(call, batch, length, total);
  checkBias(call, batch, length, total);
  return {
    output: { shape: [batch, length, multiplyDims(valueSize, heads)] },
    present: { shape: [2, batch, heads, capacity ?? total, size] },
  };
}

function headSizes(call: Call, columns: Dim): { readonly size: Dim; readonly valueSize: Dim } {
  const { num_heads: heads, qkv_hidden_sizes: sizes } = call.attrs;
  call.check(
    sizes === undefined || (sizes.length === 3 && sizes[0] === sizes[1]),
    () => `qkv_hidden_sizes must be three numbers, the first two alike, got [${sizes?.join(",")}]`,
    "invalid-argument",
  );
  if (!isKnown(columns)) return { size: unknownDim(), valueSize: unknownDim() };
  const widths = widthsOf(call.attrs, columns);
  call.check(
    widths.every((width) => width > 0 && width % heads === 0) &&
      widths.reduce((sum, width) => sum + width, 0) === columns,
    () => `weights must have columns for queries, keys and values of ${heads} heads each, got ${columns}`,
  );
  return { size: widths[0] / heads, valueSize: widths[2] / heads };
}

/** Rows of the past that count, and the capacity of a past that is a buffer. */
function checkPast(call: Call, batch: Dim, size: Dim): { readonly past: Dim; readonly capacity: Dim | undefined } {
  const { past, past_sequence_length } = call.inputs;
  const { num_heads: heads, past_present_share_buffer: shares, qkv_hidden_sizes: sizes } = call.attrs;
  if (past === undefined) return { past: 0, capacity: undefined };
  call.check(
    sizes === undefined || sizes[1] === sizes[2],
    () => `beside a past, keys and values must have the same size, got qkv_hidden_sizes [${sizes?.join(",")}]`,
  );
  const { shape } = past;
  if (shape !== undefined) {
    unifyDims(call, shape[0], 2, "past must hold keys and values");
    unifyDims(call, shape[1], batch, "past and input must agree in the batch");
    unifyDims(call, shape[2], heads, "past must have num_heads heads");
    unifyDims(call, shape[4], size, "the last dimension of past must be a head's");
  }
  const rows = shape?.[3] ?? unknownDim();
  if (!shares) return { past: rows, capacity: undefined };
  call.check(
    past_sequence_length !== undefined,
    "a past that is a buffer (past_present_share_buffer) needs past_sequence_length",
    "invalid-graph",
  );
  checkOneElement(call, "past_sequence_length", past_sequence_length);
  return { past: integersOf(past_sequence_length)?.[0] ?? unknownDim(), capacity: rows };
}

/** The check on data: the rows that a buffer already holds leave room for the fresh ones. */
export function validateAttention(call: Call): void {
  const { input, past, past_sequence_length } = call.inputs;
  const held = call.attrs.past_present_share_buffer ? knownIntegers(past_sequence_length)?.[0] : undefined;
  const [fresh, rows] = [input.shape?.[1], past?.shape?.[3]];
  if (held === undefined || fresh === undefined || rows === undefined || !isKnown(fresh) || !isKnown(rows)) return;
  call.check(
    held >= 0 && held + fresh <= rows,
    () => `past_sequence_length + ${fresh} fresh rows must lie within the ${rows} rows of past, got ${held}`,
    "invalid-argument",
  );
}

function checkMask(call: Call, batch: Dim, length: Dim, total: Dim): void {
  const { mask_index: mask } = call.inputs;
  if (mask?.shape === undefined) return;
  const forms: readonly Shape[] = [
    [batch],
    [multiplyDims(batch, 2)],
    [addDims(multiplyDims(batch, 3), 2)],
    [batch, total],
    [batch, length, total],
    [batch, 1],
    [1, 1],
  ];
  const { shape } = mask;
  const fits = (form: Shape): boolean =>
    form.length === shape.length &&
    form.every((dim, axis) => !isKnown(dim) || !isKnown(shape[axis]) || dim === shape[axis]);
  call.check(forms.some(fits), () => `mask_index must be ${forms.map(shapeText).join(", ")}, got ${factText(mask)}`);
}

function checkBias(call: Call, batch: Dim, length: Dim, total: Dim): void {
  const { attention_bias: bias, past } = call.inputs;
  if (bias === undefined) return;
  call.check(past === undefined, "past and attention_bias exclude each other", "invalid-graph");
  checkRank(call, "attention_bias", bias, 4);
  const wanted: Shape = [batch, call.attrs.num_heads, length, total];
  bias.shape?.forEach((dim, axis) => {
    if (axis < 2 && dim === 1) return;
    unifyDims(call, dim, wanted[axis], `attention_bias must be ${shapeText(wanted)}, or 1 in the first two dimensions`);
  });
}
