/**
 * Paged caches as plain functions on tensors: the write and its inverse. The operators' rules are theirs; here are the
 * signatures, and what only whole tensors can get wrong.
 */
import { InsituError } from "#insitu/base/error.js";
import { type Callable, callReference, inferOutputs } from "#insitu/graph/call.js";
import { factOfView } from "#insitu/graph/fact.js";
import type { PagedLayout } from "#insitu/ops/shared/paged/layouts.js";
import { cloneView } from "#insitu/tensor/copy.js";
import type { ByteStorage } from "#insitu/tensor/element-type.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { View } from "#insitu/tensor/view.js";
import { callOperator, checkOperand, prepareCall, readArguments } from "./call-operator.js";

export type { PagedLayout } from "#insitu/ops/shared/paged/layouts.js";
export { convertPagedLayout, type PagedLayoutChange } from "./paged-layout.js";
export { slotMapping, type SlotMappingInputs } from "./slot-mapping.js";

/** Operands of `scatterPaKvCache`. Index tensors are all int32 or all int64. */
export interface ScatterPaKvCacheInputs {
  /** [tokens, heads, size]; [batch, length, heads, size] to compress padded sequences; with "Nct" a buffer of any shape. */
  readonly key: Tensor;
  readonly keyCache: Tensor;
  /** [tokens], or where sequences are compressed one entry a sequence and head. Negative entries are skipped. */
  readonly slotMapping: Tensor;
  readonly value?: Tensor | undefined;
  readonly valueCache?: Tensor | undefined;
  /** [batch, heads] or [batch * heads]: tokens kept ("Alibi"), averaged ("Rope") or dropped ("Omni"). */
  readonly compressLens?: Tensor | undefined;
  /** [batch * heads]: where in its sequence the window begins; negative: nothing is compressed. */
  readonly compressSeqOffset?: Tensor | undefined;
  /** [batch] */
  readonly seqLens?: Tensor | undefined;
}

/** Attributes of `scatterPaKvCache`. */
export interface ScatterPaKvCacheOptions {
  readonly cacheMode?: "Norm" | "PA_NZ" | "" | null;
  readonly scatterMode?: "None" | "Nct" | "Alibi" | "Rope" | "Omni" | "NHSD" | "" | null;
  /** "Nct": elements between the starts of consecutive tokens, for key and for value. */
  readonly strides?: readonly number[];
  /** "Nct": elements before the first token, for key and for value. */
  readonly offsets?: readonly number[];
  /** Refuse two vectors in one slot; otherwise the last one stays. */
  readonly check?: boolean;
  /** The bytes of uint8 tensors are HiFloat8: moved as they are, never averaged. */
  readonly hifloat8?: boolean;
  /** Write into the caches' own data instead of copies. */
  readonly inPlace?: boolean;
}

const label = "ops.scatterPaKvCache";

/** Writes keys and values into paged caches at their slots. With `inPlace`, the caches returned are those given. */
export function scatterPaKvCache(
  inputs: ScatterPaKvCacheInputs,
  given?: ScatterPaKvCacheOptions,
): { keyCache: Tensor; valueCache: Tensor | undefined } {
  const options: ScatterPaKvCacheOptions = readArguments(label, inputs, given);
  const { keyCache, valueCache } = inputs;
  const call = prepare(options, valueCache !== undefined);
  const { node } = call;
  const views = [
    viewOf("key", inputs.key),
    viewOf("keyCache", keyCache),
    viewOf("slotMapping", inputs.slotMapping),
    viewOf("value", inputs.value),
    viewOf("valueCache", valueCache),
    viewOf("compressLens", inputs.compressLens),
    viewOf("compressSeqOffset", inputs.compressSeqOffset),
    viewOf("seqLens", inputs.seqLens),
  ];
  // The operator's rules on types and shapes are asked once for each set of them; those on data it asks itself, before it writes.
  if (!haveKinds(views, call.checked)) {
    inferOutputs(
      node,
      views.map((view) => view && factOfView(view)),
      none,
    );
    call.checked = views.map((view) => view && { type: view.type, shape: view.shape });
  }
  const [, keys, , , values] = views;
  if (options.inPlace === true) {
    callReference(node, apart(views, keys!, values), [keys, values], [], none);
    return { keyCache, valueCache };
  }
  const present = View.allocate(keys!.type, keys!.shape);
  const presentValue = values && View.allocate(values.type, values.shape);
  callReference(node, views, [present, presentValue], [], none);
  return { keyCache: Tensor.fromView(present), valueCache: presentValue && Tensor.fromView(presentValue) };
}

const none = (): never => {
  throw new InsituError("internal", `${label} has no subgraphs`);
};

function viewOf(name: string, tensor: Tensor | undefined): View | undefined {
  checkOperand(label, name, tensor);
  return tensor?.toView();
}

type Kind = Pick<View, "type" | "shape"> | undefined;

/** A call with its options read, and the types and shapes of operands it last found right. */
interface Prepared {
  readonly node: Callable;
  checked: readonly Kind[] | undefined;
}

function haveKinds(views: readonly Kind[], checked: readonly Kind[] | undefined): boolean {
  if (checked === undefined) return false;
  for (let at = 0; at < checked.length; at++) {
    const [given, known] = [views[at], checked[at]];
    if (given?.type !== known?.type || given?.shape.length !== known?.shape.length) return false;
    if (given === undefined || known === undefined || given.shape === known.shape) continue;
    for (let axis = 0; axis < known.shape.length; axis++) if (given.shape[axis] !== known.shape[axis]) return false;
  }
  return true;
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/** Calls prepared before, by their options: a step of decoding takes hardly longer than reading them anew would. */
const prepared = new Map<string, Prepared>();
const plainOptions: ReadonlySet<string> = new Set(["cacheMode", "scatterMode", "check", "hifloat8", "inPlace"]);

function prepare(options: ScatterPaKvCacheOptions, writesValues: boolean): Prepared {
  const { cacheMode, scatterMode, check, hifloat8 } = options;
  let plain = true;
  for (const name in options) plain &&= plainOptions.has(name);
  // Only of what can stand in a name: anything else is refused when it is read.
  plain &&= [cacheMode, scatterMode, check, hifloat8].every((each) => typeof each !== "symbol" && !isObject(each));
  const key = plain ? `${cacheMode} ${scatterMode} ${check} ${hifloat8} ${writesValues}` : "";
  const before = plain ? prepared.get(key) : undefined;
  if (before !== undefined) return before;
  const node = prepareCall({
    name: "ScatterPaKvCache",
    domain: "insitu",
    label,
    outputs: writesValues ? ["key_cache", "value_cache"] : ["key_cache"],
    options: { ...options, cacheMode: cacheMode ?? "", scatterMode: scatterMode ?? "" },
  });
  const call: Prepared = { node, checked: undefined };
  if (plain) prepared.set(key, call);
  return call;
}

/** The operands, copied where they lie in bytes of a cache that is written. Fails if both caches do. */
function apart(views: readonly (View | undefined)[], keys: View, values: View | undefined): (View | undefined)[] {
  if (values !== undefined && shareBytes(keys.data as ByteStorage, values.data as ByteStorage)) {
    throw new InsituError(
      "invalid-argument",
      `${label}: keyCache and valueCache lie in the same bytes, so they cannot both be written in place; give each its own`,
    );
  }
  return views.map((view) => {
    if (view === undefined || view === keys || view === values) return view;
    const data = view.data as ByteStorage;
    const shared =
      shareBytes(data, keys.data as ByteStorage) ||
      (values !== undefined && shareBytes(data, values.data as ByteStorage));
    return shared ? cloneView(view) : view;
  });
}

/** True if two arrays have bytes in common. */
const shareBytes = (a: ByteStorage, b: ByteStorage): boolean =>
  a.buffer === b.buffer && a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;

/** Operands of `gatherPaKvCache`. Index tensors are all int32 or all int64. */
export interface GatherPaKvCacheInputs {
  readonly keyCache: Tensor;
  readonly valueCache?: Tensor | undefined;
  /** [batch, columns]: the blocks of each sequence, in order. */
  readonly blockTables: Tensor;
  /** [batch], or with `isSeqLensCumsum` [batch + 1], starting with 0. */
  readonly seqLens: Tensor;
  /** [batch]: tokens before the first one read; only whole blocks of them are skipped. */
  readonly seqOffset?: Tensor | undefined;
}

/** Attributes of `gatherPaKvCache`. */
export interface GatherPaKvCacheOptions {
  readonly cacheMode?: PagedLayout | "" | null;
  readonly isSeqLensCumsum?: boolean;
}

/** Reads sequences out of paged caches: [tokens, heads, size], from a PA_NZ cache [tokens, heads * size]. */
export function gatherPaKvCache(
  inputs: GatherPaKvCacheInputs,
  given?: GatherPaKvCacheOptions,
): { key: Tensor; value: Tensor | undefined } {
  const { cacheMode, ...rest } = readArguments<GatherPaKvCacheOptions>("ops.gatherPaKvCache", inputs, given);
  const { key, value } = callOperator({
    name: "GatherPaKvCache",
    domain: "insitu",
    label: "ops.gatherPaKvCache",
    inputs: {
      key_cache: inputs.keyCache,
      value_cache: inputs.valueCache,
      block_tables: inputs.blockTables,
      seq_lens: inputs.seqLens,
      seq_offset: inputs.seqOffset,
    },
    outputs: inputs.valueCache === undefined ? ["key"] : ["key", "value"],
    options: { ...rest, cacheMode: cacheMode ?? "" },
  });
  return { key, value };
}
