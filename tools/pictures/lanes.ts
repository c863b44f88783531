/**
 * The life of each cache in one run, as a picture needs it: the buffers its values lie in, and who reads, writes or copies them,
 * in the order of the plan. Decides nothing and draws nothing.
 */
import { factText } from "#insitu/graph/fact.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import type { Pair } from "#insitu/plan/pairs.js";
import { bytesReadBy } from "#insitu/plan/uses.js";
import type { CacheEntry } from "#insitu/explain/caches.js";
import { type ChainStep, nameOf } from "#insitu/explain/chains.js";
import type { Explanation } from "#insitu/explain/gather.js";
import { groupAlike, patternOf, rangeText } from "#insitu/explain/groups.js";

/** A stretch of memory, from the event that makes it to the last one that uses it. Columns count events; −1 is before the run. */
interface LaneBuffer {
  readonly name: string;
  readonly first: number;
  readonly last: number;
}

/** What one node does to the cache. */
export interface LaneEvent {
  /** `read`; `write`: in place; `copy`: makes the buffer `into` out of the one it reads. */
  readonly role: "read" | "write" | "copy";
  readonly op: string;
  readonly node: string;
  /** The view through which it sees the cache. */
  readonly through?: string | undefined;
  /** The buffers it reads or writes, at least one. */
  readonly buffers: readonly number[];
  readonly into?: number | undefined;
  readonly atFault: boolean;
}

/** A graph output that lies in a buffer when the run ends. */
interface LaneOutput {
  readonly name: string;
  readonly buffer: number;
  readonly atFault: boolean;
}

/** One cache, or several alike. */
export interface Lane {
  readonly name: string;
  readonly type: string;
  /** Who owns the first buffer, in a few words. */
  readonly owner: string;
  readonly verdicts: readonly { readonly node: string; readonly inPlace: boolean; readonly reason: string }[];
  readonly buffers: readonly LaneBuffer[];
  readonly events: readonly LaneEvent[];
  readonly outputs: readonly LaneOutput[];
  /** How many caches the lane stands for. */
  readonly count: number;
}

/** Readers drawn one by one between two writes; what is beyond is drawn as one. */
const mostReaders = 4;

/** A lane for each cache, in the order of the entries. */
export function lanesOf(explanation: Explanation): Lane[] {
  const { plan, chains, caches } = explanation;
  const planned = new Set(plan.order);
  const byOrigin = new Map<Value, CacheEntry[]>();
  for (const entry of caches) {
    // What is inside a body, or not run at all, has a life of its own.
    const origin = planned.has(entry.node) ? chains.originOf(entry.present) : entry.present;
    const entries = byOrigin.get(origin);
    if (entries === undefined) byOrigin.set(origin, [entry]);
    else entries.push(entry);
  }
  const surroundings = new Surroundings(explanation, byOrigin);
  return [...byOrigin].map(([origin, entries]) =>
    planned.has(entries[0].node)
      ? new LaneBuilder(explanation, surroundings, origin, entries).build()
      : loneLane(surroundings, entries[0]),
  );
}

interface Read {
  readonly node: Node;
  readonly values: Value[];
}

/** What lanes ask of the whole plan, found once: who owns a cache, which nodes and outputs have to do with it. */
class Surroundings {
  readonly #pasts: ReadonlyMap<Value, Pair>;
  readonly inputs: ReadonlySet<Value>;
  readonly #reads = new Map<Value, Read[]>();
  readonly #outputs = new Map<Value, Value[]>();

  constructor({ plan, chains }: Explanation, origins: { has(value: Value): boolean }) {
    this.#pasts = new Map(plan.pairs.map((pair) => [pair.past, pair]));
    this.inputs = new Set(plan.graph.inputs);
    const listFor = <T>(lists: Map<Value, T[]>, value: Value): T[] | undefined => {
      const origin = chains.originOf(value);
      if (!origins.has(origin)) return undefined;
      const list = lists.get(origin) ?? [];
      lists.set(origin, list);
      return list;
    };
    for (const node of plan.order) {
      for (const value of bytesReadBy(node)) {
        const list = listFor(this.#reads, value);
        const last = list?.at(-1);
        if (last?.node === node) last.values.push(value);
        else list?.push({ node, values: [value] });
      }
    }
    for (const value of plan.graph.outputs) listFor(this.#outputs, value)?.push(value);
  }

  pairOf(past: Value): Pair | undefined {
    return this.#pasts.get(past);
  }

  /** The nodes that read what comes from an origin, in the order of the plan, each with what it reads of it. */
  readsOf(origin: Value): readonly Read[] {
    return this.#reads.get(origin) ?? [];
  }

  /** The graph outputs that come from an origin. */
  outputsOf(origin: Value): readonly Value[] {
    return this.#outputs.get(origin) ?? [];
  }

  ownerOf(origin: Value): string {
    if (this.#pasts.has(origin)) return "held by the state";
    if (origin.initializer !== undefined) return "a constant of the model";
    return this.inputs.has(origin) ? "fed by the caller" : "made by the graph";
  }
}

/** Lanes that differ only in numbers as one. */
export function groupLanes(lanes: readonly Lane[]): Lane[] {
  const keyOf = (lane: Lane): string => patternOf(JSON.stringify(lane));
  return groupAlike(lanes, keyOf).map((group): Lane => {
    const [first] = group;
    const range = (pick: (lane: Lane) => string): string => rangeText(group.map(pick));
    return {
      ...first,
      name: range(({ name }) => name),
      type: range(({ type }) => type),
      verdicts: first.verdicts.map((verdict, at) => ({
        ...verdict,
        node: range(({ verdicts }) => verdicts[at].node),
        reason: range(({ verdicts }) => verdicts[at].reason),
      })),
      events: first.events.map((event, at) => ({ ...event, node: range(({ events }) => events[at].node) })),
      outputs: first.outputs.map((output, at) => ({ ...output, name: range(({ outputs }) => outputs[at].name) })),
      count: group.length,
    };
  });
}

const verdictOf = ({ node, inPlace, reason }: CacheEntry): Lane["verdicts"][number] => ({
  node: nameOf(node),
  inPlace,
  reason,
});

const typeOf = ({ fact }: Value): string => (fact === undefined ? "" : factText(fact));

/** Inside a body what the file declares tells more than what holds for every turn of it. */
const declaredType = (value: Value): string => {
  const { type, shape } = value.declared ?? {};
  return type === undefined || shape === undefined ? typeOf(value) : factText({ type, shape });
};

/** An update inside a body: one copy. */
function loneLane(around: Surroundings, entry: CacheEntry): Lane {
  const { node, root, past, present, within } = entry;
  const through = past === root ? undefined : past.name;
  const op = within === undefined ? node.op.name : `${node.op.name} in ${within.op.name}`;
  return {
    name: root.name,
    type: declaredType(past),
    owner: within === undefined || around.inputs.has(root) ? around.ownerOf(root) : `inside ${within.label}`,
    verdicts: [verdictOf(entry)],
    buffers: [
      { name: root.name, first: -1, last: 0 },
      { name: present.name, first: 0, last: 1 },
    ],
    events: [{ role: "copy", op, node: nameOf(node), through, buffers: [0], into: 1, atFault: within !== undefined }],
    outputs: [],
    count: 1,
  };
}

class LaneBuilder {
  readonly #explanation: Explanation;
  readonly #around: Surroundings;
  readonly #origin: Value;
  readonly #entries: readonly CacheEntry[];
  /** Nodes and graph outputs that stand in the way of an update. */
  readonly #atFault: ReadonlySet<Node | Value | undefined>;
  /** The steps that lead to an entry's present or to a graph output of the lane, by the value they make. */
  readonly #path = new Map<Value, ChainStep>();
  readonly #buffers: { name: string; first: number; last: number }[] = [];
  readonly #bufferOf = new Map<Value, number>();
  readonly #views = new Map<Value, Node>();
  readonly #events: LaneEvent[] = [];

  constructor(explanation: Explanation, around: Surroundings, origin: Value, entries: readonly CacheEntry[]) {
    this.#explanation = explanation;
    this.#around = around;
    this.#origin = origin;
    this.#entries = entries;
    this.#atFault = new Set(entries.flatMap(({ obstacle, shown }) => [obstacle, shown]));
    const ends = entries.map(({ present }) => present);
    const pair = around.pairOf(origin);
    if (pair !== undefined) ends.push(pair.present);
    for (const end of ends) {
      for (const step of explanation.chains.trace(end)) {
        if (this.#path.has(step.made)) break; // and so is all that lies behind it
        this.#path.set(step.made, step);
      }
    }
  }

  build(): Lane {
    this.#bufferOf.set(this.#origin, 0);
    this.#buffers.push({ name: this.#origin.name, first: -1, last: -1 });
    for (const read of this.#around.readsOf(this.#origin)) this.#add(read);
    const outputs = this.#around.outputsOf(this.#origin).flatMap((value): LaneOutput[] => {
      const buffer = this.#bufferOf.get(value);
      if (buffer === undefined) return [];
      this.#buffers[buffer].last = this.#events.length;
      return [{ name: value.name, buffer, atFault: this.#atFault.has(value) }];
    });
    return {
      name: this.#origin.name,
      type: typeOf(this.#origin),
      owner: this.#around.ownerOf(this.#origin),
      verdicts: this.#entries.map(verdictOf),
      buffers: this.#buffers,
      events: this.#events,
      outputs,
      count: 1,
    };
  }

  /** The step by which a node makes a value of the lane, if it does. */
  #carries(node: Node, value: Value): ChainStep | undefined {
    const step = this.#explanation.chains.stepOf(value);
    if (step === undefined || step.node !== node || !this.#bufferOf.has(step.source)) return undefined;
    return step.kind === "view" || this.#path.has(value) ? step : undefined;
  }

  #add({ node, values }: Read): void {
    const { plan } = this.#explanation;
    let carried = false;
    for (const value of node.outputs) {
      const step = value && this.#carries(node, value);
      if (value === undefined || step === undefined) continue;
      carried = true;
      const buffer = this.#bufferOf.get(step.source)!;
      if (step.kind === "view") {
        this.#bufferOf.set(value, buffer);
        this.#views.set(value, node);
      } else if (plan.inPlace.has(value)) {
        this.#bufferOf.set(value, buffer);
        this.#push(node, { role: "write", buffers: [buffer] }, step.source);
      } else {
        const into =
          this.#buffers.push({ name: value.name, first: this.#events.length, last: this.#events.length }) - 1;
        this.#bufferOf.set(value, into);
        this.#push(node, { role: "copy", buffers: [buffer], into }, step.source);
      }
    }
    if (carried) return;
    const read = values.filter((value) => this.#bufferOf.has(value));
    if (read.length === 0) return;
    const buffers = [...new Set(read.map((value) => this.#bufferOf.get(value)!))].sort((a, b) => a - b);
    // Of several values the oldest tells most: it is the one that stands in the way, if one does.
    this.#push(
      node,
      { role: "read", buffers },
      read.find((value) => this.#bufferOf.get(value) === buffers[0])!,
    );
  }

  #push(node: Node, event: Pick<LaneEvent, "role" | "buffers" | "into">, value: Value): void {
    const atFault = this.#atFault.has(node);
    const { buffers } = event;
    if (event.role === "read" && !atFault && this.#crowded(buffers)) {
      const before = /^\+ (\d+)/.exec(this.#events.pop()!.op)?.[1] ?? 1;
      this.#events.push({ ...event, op: `+ ${Number(before) + 1} readers`, node: "", atFault });
      return;
    }
    for (const buffer of buffers) this.#buffers[buffer].last = this.#events.length;
    const through = this.#views.get(value)?.op.name;
    this.#events.push({ ...event, op: node.op.name, node: nameOf(node), through, atFault });
  }

  /** True where so many plain readers of the same bytes come in a row that a further one joins the last. */
  #crowded(buffers: readonly number[]): boolean {
    const recent = this.#events.slice(-mostReaders);
    return (
      recent.length === mostReaders &&
      recent.every((event) => event.role === "read" && !event.atFault && event.buffers.join() === buffers.join())
    );
  }
}
