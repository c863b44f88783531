/** A plan as tools read it: each cache with its verdict, the bytes it takes and moves, and the steps. For text see text.ts. */
import type { Value } from "#insitu/graph/graph.js";
import { otherPresents, type Pair } from "#insitu/plan/pairs.js";
import type { Plan } from "#insitu/plan/plan.js";
import type { StepAccount } from "#insitu/backends/step-account.js";
import { type CacheJson, cacheJson } from "./caches.js";
import { nameOf } from "./chains.js";
import { explanationOf, type SessionFacts } from "./gather.js";
import { runsOf } from "./kernels.js";

/** A named tensor as tools read it; dimensions are numbers or the model's symbols. */
interface ValueJson {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly (number | string)[];
}

/** A plan as tools read it. */
export interface ExplainJson {
  readonly graph: string;
  readonly policy: Plan["policy"];
  readonly inputs: readonly ValueJson[];
  readonly outputs: readonly ValueJson[];
  readonly caches: readonly CacheJson[];
  /** What a state holds: each past with its present. */
  readonly states: readonly {
    readonly input: string;
    readonly output: string;
    readonly kind: Pair["kind"];
    readonly type: string;
    readonly shape: readonly (number | string)[];
    /** Other outputs that come from the input and could be its next content, where there are some: `pairs` names one of them. */
    readonly others?: readonly string[];
  }[];
  /** How often each operator is called in the main graph. */
  readonly operators: Readonly<Record<string, number>>;
  /** How a step runs is told where it is known: after a run, or for sizes that were given. */
  readonly steps: readonly ({
    readonly node: string;
    readonly op: string;
    readonly inputs: readonly string[];
    readonly outputs: readonly string[];
  } & Partial<StepAccount>)[];
  readonly weightBytes: number;
  readonly arenaBytes: number | undefined;
  /** Bytes of all caches in their full capacity, where their sizes are known. */
  readonly stateBytes: number | undefined;
  /** What a runtime that copies its caches moves for each token, what this plan moves, and what it writes. */
  readonly copiedBytesPerToken: number | undefined;
  readonly movedBytesPerToken: number | undefined;
  readonly writtenBytesPerToken: number | undefined;
  /** The same as text: numbers, or formulas over sizes that are not known. */
  readonly formulas: {
    readonly stateBytes?: string | undefined;
    readonly copiedBytesPerToken?: string | undefined;
    readonly movedBytesPerToken?: string | undefined;
    readonly writtenBytesPerToken?: string | undefined;
  };
}

const valueJson = ({ name, fact }: Value): ValueJson => ({
  name,
  type: fact?.type ?? "",
  shape: (fact?.shape ?? []).map((dim) => (typeof dim === "number" ? dim : String(dim))),
});

/** The plan as JSON. */
export function explainJson(plan: Plan, facts: SessionFacts): ExplainJson {
  const { caches, bytes, operators } = explanationOf(plan, facts);
  return {
    graph: plan.graph.name,
    policy: plan.policy,
    inputs: plan.graph.inputs.map(valueJson),
    outputs: plan.graph.outputs.map(valueJson),
    caches: caches.map(cacheJson),
    states: plan.pairs.map((pair) => {
      const { name, type, shape } = valueJson(pair.past);
      const others = otherPresents(plan, pair).map((other) => other.name);
      const more = others.length === 0 ? {} : { others };
      return { input: name, output: pair.present.name, kind: pair.kind, type, shape, ...more };
    }),
    operators: Object.fromEntries(operators),
    steps: plan.order.map((node) => ({
      node: nameOf(node),
      op: node.op.name,
      inputs: node.inputs.map((value) => value?.name ?? ""),
      outputs: node.outputs.map((value) => value?.name ?? ""),
      ...runsOf(node, facts),
    })),
    weightBytes: facts.weightBytes,
    arenaBytes: facts.arenaBytes,
    stateBytes: plan.pairs.length === 0 ? 0 : bytes?.state.bytes,
    copiedBytesPerToken: bytes?.copying.bytes,
    movedBytesPerToken: bytes?.moved.bytes,
    writtenBytesPerToken: bytes?.written?.bytes,
    formulas: {
      stateBytes: bytes?.state.text,
      copiedBytesPerToken: bytes?.copying.text,
      movedBytesPerToken: bytes?.moved.text,
      writtenBytesPerToken: bytes?.written?.text,
    },
  };
}
