/** What is known of an attention that reads caches, however it is written: the common form of everything that becomes an Attention node. */
import type { Dim } from "#insitu/graph/dim.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { ElementType } from "#insitu/tensor/element-type.js";
import type { CacheRead } from "./cache-read.js";
import type { MaskMeaning } from "./mask.js";
import type { ModelEdit } from "./model-edit.js";

/**
 * How queries or results lie: [batch, heads, length, size], [batch, length, heads · size], heads in groups
 * ([batch, groups, heads of a group, length, size]), or [batch · heads, length, size].
 */
export type Form = "heads" | "packed" | "grouped" | "merged";

/** A tensor of queries or of results. */
export interface Laid {
  readonly name: string;
  readonly type: ElementType;
  readonly form: Form;
}

/** What an operator with its cache inside does before it attends; each makes nodes and returns a name. */
export interface OperatorParts {
  /** The queries, in the attention's own form for them. */
  query(edit: ModelEdit, positions: string): string;
  /** New rows, [batch, heads, length, size]. */
  keys(edit: ModelEdit, positions: string): string;
  values(edit: ModelEdit, positions: string): string;
}

/** An attention over caches. */
export interface CachedAttention {
  /** The node that messages name. */
  readonly node: Node;
  readonly query: Laid;
  readonly result: Laid;
  readonly heads: number;
  /** For grouped forms: the number of groups. */
  readonly groups: number;
  readonly keys: CacheRead;
  readonly values: CacheRead;
  readonly scale: number;
  /** 0 for none. */
  readonly softcap: number;
  /** The type that Softmax computes in, where it is not the queries'. */
  readonly precision: ElementType | undefined;
  /** Scores, one a head, that take part in each softmax and bring no value; "zero" for all of them 0, undefined for none. */
  readonly sinks?: Value | "zero" | undefined;
  readonly mask: MaskMeaning;
  /** A query that sees no key gives zeros, as Attention with a mask of truths has it; numbers that are added leave an even spread. */
  readonly blindIsZero: boolean;
  /** The indices that the mask's elements are written in. */
  readonly index: { readonly batch: Dim; readonly head: Dim; readonly query: Dim; readonly key: Dim };
  /** For operators with their cache inside. */
  readonly parts?: OperatorParts;
}

/** Why a node that reads a cache is no attention that can be rewritten. */
export interface Refusal {
  readonly node: Node;
  readonly reason: string;
}
