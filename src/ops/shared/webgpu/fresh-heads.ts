/** A step's queries, keys and values as operators that turn and write them have them: apart, or side by side in one operand. */
import type { Operand } from "../../../graph/kernel.js";
import { acceptsAttention } from "./attention.js";
import { acceptsRows, type Heads, headsFrom, headsOf } from "./heads.js";
import { isFloatType } from "../../../webgpu-kernels/wgsl.js";
import type { WebgpuRecorder } from "../../../webgpu-kernels/webgpu-kernel.js";
import { laidOnce, type Table } from "./tables.js";
import { canTurn, type Turning } from "./turn-heads.js";

interface FreshCall {
  readonly inputs: Readonly<
    Record<
      "K" | "V" | "cos_cache" | "sin_cache" | "position_ids" | "q_norm_scale" | "k_norm_scale",
      Operand | undefined
    >
  > & { readonly Q: Operand };
  readonly attrs: {
    readonly q_num_heads: number;
    readonly kv_num_heads: number;
    readonly interleaved: boolean;
    readonly epsilon: number;
  };
}

interface Fresh {
  readonly query: Heads;
  readonly key: Heads;
  readonly value: Heads;
}

/** Queries and fresh rows, apart or side by side in one operand. */
export function freshHeads({
  inputs: { Q, K, V },
  attrs: { q_num_heads: heads, kv_num_heads: shared },
}: FreshCall): Fresh {
  if (K !== undefined && V !== undefined)
    return { query: headsOf(Q, heads), key: headsOf(K, shared), value: headsOf(V, shared) };
  const all = headsOf(Q, heads + 2 * shared);
  return {
    query: headsFrom(all, 0, heads),
    key: headsFrom(all, heads, shared),
    value: headsFrom(all, heads + shared, shared),
  };
}

/** What is done to queries and to keys: the weights of both norms are bound as one, and cosines with sines. */
export function headTurnings(
  { inputs, attrs }: FreshCall,
  positions: Table | undefined,
  recorder: WebgpuRecorder,
): Record<"query" | "key", Turning> {
  const { cos_cache: cosines, sin_cache: sines, q_norm_scale: queryScales, k_norm_scale: keyScales } = inputs;
  const angles = cosines && sines && laidOnce("angles", { cosines, sines }, recorder);
  const rotation = angles && { cos: angles.cosines, sin: angles.sines, positions, interleaved: attrs.interleaved };
  const scales = queryScales && keyScales && laidOnce("scales", { queryScales, keyScales }, recorder);
  const norm = (scale: Table | undefined): Turning["norm"] => scale && { scale, epsilon: attrs.epsilon };
  return {
    query: { norm: norm(scales?.queryScales), rotation },
    key: { norm: norm(scales?.keyScales), rotation },
  };
}

/** Whether a step's rows can be turned, written into caches beside them, and attended over; else why not. */
export function acceptsFresh(call: FreshCall, output: Operand, presents: readonly [Operand, Operand]): true | string {
  const { Q, K, V, cos_cache, sin_cache, q_norm_scale, k_norm_scale } = call.inputs;
  const rows = [Q, K, V].filter((operand) => operand !== undefined);
  for (const operand of rows) if (acceptsRows(operand) !== true) return acceptsRows(operand);
  for (const operand of [cos_cache, sin_cache, q_norm_scale, k_norm_scale])
    if (operand !== undefined && (!operand.contiguous || !isFloatType(operand.type))) return "tables have gaps";
  const written = presents.map(({ place }) => place.buffer);
  if (rows.some(({ place }) => written.includes(place.buffer))) return "the rows lie in the cache itself";
  if (output.place.size === 0) return "there is nothing to compute";
  const { query, key, value } = freshHeads(call);
  for (const part of [query, key, value]) {
    const turns = canTurn(presents[0].type, part, 65535);
    if (turns !== true) return turns;
  }
  return acceptsAttention(query, key, value, output);
}
