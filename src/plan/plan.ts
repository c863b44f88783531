/**
 * Graph → Plan: which updates happen in place, and the order that makes them safe. Pure: no device, no shapes in numbers.
 *
 * An update may take its operand's buffer when the buffer may be written at all, and when every reader of the old bytes can be
 * put before the writer. Readers are found through views and through what subgraphs capture; a graph output that shows the old
 * bytes is read at the end of the run, after every writer.
 */
import { InsituError } from "../base/error.js";
import type { Graph, Node, Value } from "../graph/graph.js";
import { checkedFirst } from "./data-checks.js";
import { Order } from "./order.js";
import { findPairs, type PairChoice } from "./named-pairs.js";
import type { Pair } from "./pairs.js";
import { bytesReadBeside, effectOf, Uses } from "./uses.js";

/** When updates are done in place: where proved, always or not at all. */
export type InPlacePolicy = "prefer" | "require" | "never";

/** What was decided for one output that declares an update. */
export interface Verdict {
  readonly node: Node;
  /** The value the chain of updates and views starts from. */
  readonly root: Value;
  /** The operand that is updated, and the output that results. */
  readonly past: Value;
  readonly present: Value;
  readonly inPlace: boolean;
  /** Why, in words that follow "written in place: " or "copied: ". */
  readonly reason: string;
  /** What stands in the way. */
  readonly obstacle?: Node | undefined;
  /** True for every update by an operator made for caches, and for a general one whose root is a graph input. */
  readonly isCache: boolean;
}

/** The order of a graph's nodes and the fate of each update. */
export interface Plan {
  readonly graph: Graph;
  readonly policy: InPlacePolicy;
  readonly order: readonly Node[];
  readonly pairs: readonly Pair[];
  /** Every pair that structure suggests: where a past has several, others could have been chosen. */
  readonly candidates: readonly Pair[];
  readonly verdicts: readonly Verdict[];
  /** The outputs that lie in their operand's buffer by a verdict. */
  readonly inPlace: ReadonlyMap<Value, Value>;
  readonly uses: Uses;
}

/** How to plan. */
export interface PlanOptions extends PairChoice {
  readonly policy?: InPlacePolicy;
  /** Who holds the past of a pair: a state, which may be written, or the caller, whose feeds never are. */
  readonly pasts?: "state" | "caller";
  /** For tests of the verdicts: alias these outputs although they were refused. */
  readonly force?: (verdict: Verdict) => boolean;
}

/** Plans a graph. Throws under "require" where a cache cannot be written in place. */
export function makePlan(graph: Graph, options: PlanOptions = {}): Plan {
  const { policy = "prefer", pasts = "state", force } = options;
  const uses = new Uses(graph);
  const order = new Order(graph);
  const { pairs, candidates } = findPairs(graph, options);
  const held = new Set(pasts === "state" ? pairs.map((pair) => pair.past) : []);
  const inPlace = new Map<Value, Value>();
  const verdicts: Verdict[] = [];
  for (const { node, past, present, position, general } of updatesOf(graph, pairs)) {
    const root = rootOf(past, uses, inPlace);
    const found = judge({ node, past, position, root }, { graph, uses, order, held, inPlace, policy });
    const verdict: Verdict = { node, past, present, root, isCache: !general || graph.inputs.includes(root), ...found };
    verdicts.push(verdict);
    if (verdict.inPlace || force?.(verdict)) inPlace.set(present, past);
  }
  verdicts.sort((a, b) => graph.nodes.indexOf(a.node) - graph.nodes.indexOf(b.node));
  if (policy === "require") refuseCopies(verdicts, pairs);
  return { graph, policy, order: checkedFirst(order.layOut(), inPlace), pairs, candidates, verdicts, inPlace, uses };
}

interface Update {
  readonly node: Node;
  readonly past: Value;
  readonly present: Value;
  /** The operand's position among the node's inputs. */
  readonly position: number;
  readonly general: boolean;
}

/** Every output that declares an update; those that lead to a state's next content first, since two cannot share one buffer. */
function updatesOf(graph: Graph, pairs: readonly Pair[]): Update[] {
  const leading = new Set(pairs.flatMap((pair) => pair.writers));
  const updates: Update[] = [];
  for (const node of graph.nodes) {
    node.outputs.forEach((present, position) => {
      const effect = effectOf(node, position);
      if (present !== undefined && effect?.kind === "update")
        updates.push({ node, past: effect.sources[0], present, position: effect.position, general: effect.general });
    });
  }
  return [...updates.filter(({ node }) => leading.has(node)), ...updates.filter(({ node }) => !leading.has(node))];
}

/** The value at the start of a chain of views and in-place updates: the owner of the buffer. */
function rootOf(value: Value, uses: Uses, inPlace: ReadonlyMap<Value, Value>): Value {
  let root = uses.baseOf(value);
  for (let next = inPlace.get(root); next !== undefined; next = inPlace.get(root)) root = uses.baseOf(next);
  return root;
}

interface Surroundings {
  readonly graph: Graph;
  readonly uses: Uses;
  readonly order: Order;
  /** The inputs whose buffers belong to a state. */
  readonly held: ReadonlySet<Value>;
  readonly inPlace: ReadonlyMap<Value, Value>;
  readonly policy: InPlacePolicy;
}

type Finding = Pick<Verdict, "inPlace" | "reason" | "obstacle">;

const copied = (reason: string, obstacle?: Node): Finding => ({ inPlace: false, reason, obstacle });

function judge(
  { node, past, position, root }: Pick<Verdict, "node" | "past" | "root"> & Pick<Update, "position">,
  { graph, uses, order, held, inPlace, policy }: Surroundings,
): Finding {
  if (policy === "never") return copied('the policy is "never"');
  if (root.initializer !== undefined)
    return copied(`"${root.name}" is an initializer, and constants are never written`);
  if (graph.inputs.includes(root) && !held.has(root)) {
    return copied(`"${root.name}" is fed by the caller, and feeds are never written`);
  }
  const same = uses.sameBytes(past);
  const taker = [...inPlace].find(([, source]) => same.includes(source));
  if (taker !== undefined) {
    const other = uses.producers.get(taker[0])!;
    return copied(`${other.label} already writes "${past.name}" in place, and one buffer holds one result`, other);
  }
  const shown = graph.outputs.find((output) => same.includes(output));
  if (shown !== undefined) {
    const what = shown === past ? "the old value" : "a view of the old value";
    return copied(`the graph output "${shown.name}" is ${what}, and is read when the run ends`);
  }
  if (bytesReadBeside(node, position).some((value) => same.includes(value)))
    return copied(`${node.label} reads the old value as another operand too, while it writes`, node);
  const readers = new Set(same.flatMap((value) => uses.readers.get(value) ?? []));
  readers.delete(node);
  for (const reader of readers) {
    if (order.mustFollow(node, reader)) {
      return copied(
        `${reader.label} reads the old value and needs this node's result, so it cannot come first`,
        reader,
      );
    }
  }
  for (const reader of readers) order.require(reader, node);
  const others =
    readers.size === 0
      ? "nothing else reads the old value"
      : `its ${readers.size === 1 ? "other reader comes" : `${readers.size} other readers come`} first`;
  return { inPlace: true, reason: others };
}

function refuseCopies(verdicts: readonly Verdict[], pairs: readonly Pair[]): void {
  const problem = verdicts.find((verdict) => verdict.isCache && !verdict.inPlace);
  if (problem !== undefined) {
    throw new InsituError(
      "not-in-place",
      `${problem.node.label}: "${problem.past.name}" cannot be updated in place: ${problem.reason}; load with inPlace: "prefer" to copy it`,
    );
  }
  const carried = pairs.find((pair) => pair.writers.length === 0);
  if (carried !== undefined) {
    throw new InsituError(
      "not-in-place",
      `"${carried.past.name}" cannot be updated in place: "${carried.present.name}" is computed elsewhere and copied into it after each run; load with inPlace: "prefer" to copy it`,
    );
  }
  const appended = pairs.find((pair) => pair.kind === "append");
  if (appended !== undefined) {
    const node = appended.writers.at(-1)!;
    throw new InsituError(
      "not-in-place",
      `${node.label}: "${appended.past.name}" cannot be updated in place: ${node.op.name} makes a new tensor each time; load with inPlace: "prefer" to copy it`,
    );
  }
}
