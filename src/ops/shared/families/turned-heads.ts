/** What is done to a step's heads before an attention, as steps of a body: their norm, and their rotary embedding. */
import { float as floatValue, int as intValue } from "../../../graph/attribute-values.js";
import { Reshape14 as Reshape } from "../../reshape/op.js";
import { RotaryEmbedding } from "../../rotary-embedding/op.js";
import { SimplifiedLayerNormalization } from "../../simplified-layer-normalization/op.js";
import { Split18 as Split } from "../../split/op.js";
import { type BodyStep, integers, step } from "./composed.js";

/** What decides it. */
export interface TurningCall {
  readonly inputs: Readonly<Record<"K" | "cos_cache" | "position_ids" | "q_norm_scale", unknown>>;
  readonly attrs: {
    readonly q_num_heads: number;
    readonly kv_num_heads: number;
    readonly head_size: number;
    readonly interleaved: boolean;
    readonly rotary_embedding_dim: number;
    readonly epsilon: number;
  };
}

/** Steps, and the names of the rows that come out of them, heads side by side. */
interface TurnedHeads {
  readonly steps: readonly BodyStep[];
  readonly query: string;
  readonly key: string;
  readonly value: string;
}

/** Queries, keys and values of Q, K and V, or of Q alone where it holds all three. */
export function turnedHeads({ inputs, attrs }: TurningCall): TurnedHeads {
  const { q_num_heads: heads, kv_num_heads: shared, head_size: size } = attrs;
  const steps: BodyStep[] = [];
  const then = (op: BodyStep["op"], operands: BodyStep["inputs"], result: string, attributes = {}): string => {
    steps.push(step(op, operands, [result], attributes));
    return result;
  };
  if (inputs.K === undefined)
    steps.push(
      step(Split, ["Q", integers(heads * size, shared * size, shared * size)], ["query", "key", "value"], {
        axis: intValue(2),
      }),
    );
  const prepared = (name: string, count: number, norm: string): string => {
    let last = name;
    if (inputs.q_norm_scale !== undefined) {
      last = then(Reshape, [last, integers(0, 0, count, size)], `${name} heads`);
      const attributes = { axis: intValue(-1), epsilon: floatValue(attrs.epsilon) };
      last = then(SimplifiedLayerNormalization, [last, norm], `${name} normalized`, attributes);
      last = then(Reshape, [last, integers(0, 0, count * size)], `${name} rows`);
    }
    if (inputs.cos_cache === undefined) return last;
    const positions = inputs.position_ids === undefined ? undefined : "position_ids";
    return then(RotaryEmbedding, [last, "cos_cache", "sin_cache", positions], `${name} turned`, {
      num_heads: intValue(count),
      interleaved: intValue(attrs.interleaved ? 1 : 0),
      rotary_embedding_dim: intValue(attrs.rotary_embedding_dim),
    });
  };
  const [q, k, v] = inputs.K === undefined ? ["query", "key", "value"] : ["Q", "K", "V"];
  return { query: prepared(q, heads, "q_norm_scale"), key: prepared(k, shared, "k_norm_scale"), value: v, steps };
}
