/**
 * Graph → Plan: which updates happen in place, and the order that makes them safe. Pure: no device, no shapes in numbers.
 *
 * An update may take its operand's buffer when the buffer may be written at all, and when every reader of the old bytes can be
 * put before the writer. Readers are found through views and through what subgraphs capture; a graph output that shows the old
 * bytes is read at the end of the run, after every writer. What makes all of a state's next content anew may take the state's buffer alike.
 */
import { InsituError } from "../base/error.js";
import { sameDim } from "../graph/dim.js";
import { type Graph, type Node, type Value, quoted } from "../graph/graph.js";
import { checkedFirst } from "./data-checks.js";
import { Order } from "./order.js";
import { findPairs, type PairChoice } from "./named-pairs.js";
import type { Pair } from "./pairs.js";
import { bytesReadBeside, effectOf, Uses } from "./uses.js";

/** Whether caches are updated in place: "prefer" copies where it is not proved safe, "require" throws there, "never" always copies. */
export type InPlacePolicy = "prefer" | "require" | "never";

/** What was decided for one output that declares an update, or that is made in the buffer of the state which it becomes. */
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
  /** Pasts that a state holds. */
  readonly held: ReadonlySet<Value>;
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
  const inputs = new Set(graph.inputs);
  const around: Surroundings = { inputs, uses, order, held, policy, buffers: new Buffers(graph, uses, order) };
  // The update that makes a past is looked at before the update of that past: where the past's buffer begins is known.
  for (const { node, past, present, position, general } of updatesOf(graph, pairs)) {
    const root = around.buffers.rootOf(past);
    const found = judge({ node, past, position, root }, around);
    const verdict: Verdict = { node, past, present, root, isCache: !general || inputs.has(root), ...found };
    verdicts.push(verdict);
    if (!verdict.inPlace && force?.(verdict) !== true) continue;
    inPlace.set(present, past);
    around.buffers.take(past, present, root);
  }
  for (const { past, present, writers } of pairs) {
    const node = writers.length === 0 ? maker(past, present, uses) : undefined;
    if (node === undefined || around.buffers.readersOf(past).nodes.has(node)) continue;
    const found = judge({ node, past, position: -1, root: past }, around);
    if (!found.inPlace) continue;
    verdicts.push({ node, past, present, root: past, isCache: true, ...found });
    inPlace.set(present, past);
    around.buffers.take(past, present, past);
  }
  verdicts.sort((a, b) => order.positionOf(a.node) - order.positionOf(b.node));
  if (policy === "require") refuseCopies(verdicts, pairs, inPlace);
  const steps = checkedFirst(order.layOut(), inPlace);
  return { graph, policy, order: steps, pairs, held, candidates, verdicts, inPlace, uses };
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

/**
 * The node that makes all of a state's next content anew, where it could do so in the state's own buffer: of exactly its size, and nothing that
 * lies elsewhere.
 */
function maker({ fact: held }: Value, present: Value, uses: Uses): Node | undefined {
  const { fact } = present;
  const node = uses.producers.get(present);
  if (node === undefined || uses.baseOf(present) !== present || fact?.constant !== undefined) return undefined;
  if (effectOf(node, node.outputs.indexOf(present))?.kind === "update") return undefined;
  const isAlike =
    fact?.type === held?.type &&
    fact?.shape?.length === held?.shape?.length &&
    fact?.shape?.every((dim, axis) => sameDim(dim, held!.shape![axis])) === true;
  return isAlike ? node : undefined;
}

/** What is known of buffers while updates are judged, by the value that their bytes belong to. */
class Buffers {
  readonly #uses: Uses;
  readonly #order: Order;
  /** The value at the start of a chain of views and in-place updates, by the last result of the chain. */
  readonly #roots = new Map<Value, Value>();
  /** The result that was put into a buffer. */
  readonly #takers = new Map<Value, Value>();
  readonly #shown = new Map<Value, Value>();
  readonly #readers = new Map<Value, Readers>();

  constructor(graph: Graph, uses: Uses, order: Order) {
    this.#uses = uses;
    this.#order = order;
    for (const output of graph.outputs) {
      const base = uses.baseOf(output);
      if (!this.#shown.has(base)) this.#shown.set(base, output);
    }
  }

  /** The owner of the buffer that a value lies in. */
  rootOf(value: Value): Value {
    const base = this.#uses.baseOf(value);
    return this.#roots.get(base) ?? base;
  }

  /** Notes that an update's result lies in the buffer of its past. */
  take(past: Value, present: Value, root: Value): void {
    this.#takers.set(this.#uses.baseOf(past), present);
    this.#roots.set(present, root);
  }

  takerOf(past: Value): Value | undefined {
    return this.#takers.get(this.#uses.baseOf(past));
  }

  /** The first graph output that shows a value's bytes. */
  shownAs(past: Value): Value | undefined {
    return this.#shown.get(this.#uses.baseOf(past));
  }

  /** Every node that reads a value's bytes, through whatever view. */
  readersOf(past: Value): Readers {
    const base = this.#uses.baseOf(past);
    let readers = this.#readers.get(base);
    if (readers === undefined) {
      const nodes = new Set<Node>();
      let last = -1;
      for (const value of this.#uses.sameBytes(base)) {
        for (const node of this.#uses.readers.get(value) ?? []) {
          nodes.add(node);
          last = Math.max(last, this.#order.positionOf(node));
        }
      }
      this.#readers.set(base, (readers = { nodes, last }));
    }
    return readers;
  }
}

interface Readers {
  readonly nodes: ReadonlySet<Node>;
  /** Where the last of them stands in the file. */
  readonly last: number;
}

interface Surroundings {
  readonly inputs: ReadonlySet<Value>;
  readonly uses: Uses;
  readonly order: Order;
  /** The inputs whose buffers belong to a state. */
  readonly held: ReadonlySet<Value>;
  readonly buffers: Buffers;
  readonly policy: InPlacePolicy;
}

type Finding = Pick<Verdict, "inPlace" | "reason" | "obstacle">;

const copied = (reason: string, obstacle?: Node): Finding => ({ inPlace: false, reason, obstacle });

function judge(
  { node, past, position, root }: Pick<Verdict, "node" | "past" | "root"> & Pick<Update, "position">,
  { inputs, uses, order, held, buffers, policy }: Surroundings,
): Finding {
  if (policy === "never") return copied('the policy is "never"');
  if (root.initializer !== undefined)
    return copied(`${quoted(root)} is an initializer, and constants are never written`);
  if (inputs.has(root) && !held.has(root))
    return copied(`${quoted(root)} is fed by the caller, and feeds are never written`);
  const taker = buffers.takerOf(past);
  if (taker !== undefined) {
    const other = uses.producers.get(taker)!;
    return copied(`${other.label} already writes ${quoted(past)} in place, and one buffer holds one result`, other);
  }
  const shown = buffers.shownAs(past);
  if (shown !== undefined) {
    const what = shown === past ? "the old value" : "a view of the old value";
    return copied(`the graph output ${quoted(shown)} is ${what}, and is read when the run ends`);
  }
  if (bytesReadBeside(node, position).some((value) => uses.baseOf(value) === uses.baseOf(past)))
    return copied(`${node.label} reads the old value as another operand too, while it writes`, node);
  const readers = buffers.readersOf(past);
  const follower = order.followerOf(node, readers.nodes, readers.last);
  if (follower === "unknown")
    return copied(
      "the graph is too large and too entangled to find out whether every reader of the old value can come first",
    );
  if (follower !== "none")
    return copied(
      `${follower.label} reads the old value and needs this node's result, so it cannot come first`,
      follower,
    );
  let others = 0;
  for (const reader of readers.nodes) {
    if (reader === node) continue;
    order.require(reader, node);
    others++;
  }
  const reason =
    others === 0
      ? "nothing else reads the old value"
      : `its ${others === 1 ? "other reader comes" : `${others} other readers come`} first`;
  return { inPlace: true, reason };
}

function refuseCopies(verdicts: readonly Verdict[], pairs: readonly Pair[], inPlace: ReadonlyMap<Value, Value>): void {
  const problem = verdicts.find((verdict) => verdict.isCache && !verdict.inPlace);
  if (problem !== undefined) {
    throw new InsituError(
      "not-in-place",
      `${problem.node.label}: ${quoted(problem.past)} cannot be updated in place: ${problem.reason}; load with inPlace: "prefer" to copy it`,
    );
  }
  const carried = pairs.find(({ writers, present }) => writers.length === 0 && !inPlace.has(present));
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
      `${node.label}: ${quoted(appended.past)} cannot be updated in place: ${node.op.name} makes a new tensor each time; load with inPlace: "prefer" to copy it`,
    );
  }
}
