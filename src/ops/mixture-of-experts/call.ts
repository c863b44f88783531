/** What both operators' kernels read of a call alike. */
import type { CallOf, Operand } from "../../graph/kernel.js";
import { floatBits, type WeightForm } from "./infer.js";
import type { MoE, QMoE } from "./op.js";

export type Call = CallOf<typeof MoE> | CallOf<typeof QMoE>;

export const formOf = (attrs: Call["attrs"]): WeightForm =>
  "expert_weight_bits" in attrs
    ? { bits: attrs.expert_weight_bits, blockSize: attrs.block_size }
    : { bits: floatBits, blockSize: 0 };

/** What each token's experts are weighed by, where it is given apart from what they are chosen by. */
export const given = (inputs: Call["inputs"]): Operand | undefined =>
  "router_weights" in inputs ? inputs.router_weights : undefined;
