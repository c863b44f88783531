/** A step's queries, keys and values as operators that turn and write them have them: apart, or side by side in one operand. */
import type { Operand } from "../../../graph/kernel.js";
import { type Heads, headsFrom, headsOf } from "./heads.js";
import type { Turning } from "./turn-heads.js";

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

/** What is done to queries and to keys. */
export function headTurnings({ inputs, attrs }: FreshCall): Record<"query" | "key", Turning> {
  const { cos_cache: cos, sin_cache: sin, position_ids: positions, q_norm_scale, k_norm_scale } = inputs;
  const rotation = cos && sin && { cos, sin, positions, interleaved: attrs.interleaved };
  const norm = (scale: Operand | undefined): Turning["norm"] => scale && { scale, epsilon: attrs.epsilon };
  return {
    query: { norm: norm(q_norm_scale), rotation },
    key: { norm: norm(k_norm_scale), rotation },
  };
}
