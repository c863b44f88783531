/**
 * States without rows that no update shows: what a convolution looks back on, joined to and cut to its size again, or a recurrence that is written out.
 * Found by what depends on what; names decide only among outputs that all depend on a state, and alone where nothing does.
 */
import { isKnown, sameDim } from "../graph/dim.js";
import { type Graph, type Node, readsOf, type Value } from "../graph/graph.js";
import { type Pair } from "./pairs.js";

/** What inputs are called that hold a state. Others are data, however much an output looks like them. */
const stateName = /past|prev|state|conv|ssm|recurrent|memory/i;

/** True for an input of a size that only the batch changes: no rows are added to it. */
export const hasFixedSize = ({ fact, initializer }: Value): boolean =>
  initializer === undefined && fact?.shape !== undefined && fact.shape.length > 1 && fact.shape.slice(1).every(isKnown);

/** True if an output has an input's type and size: what is cut by a length that data decide has the size that the file declares, or a run says that it has not. */
function hasSizeOf(past: Value, present: Value): boolean {
  const [a, b] = [past.fact, present.fact];
  if (a?.shape === undefined || a.type !== b?.type) return false;
  const [own, other] = [past.declared?.shape, present.declared?.shape];
  return (
    (b.shape ?? other)?.length === a.shape.length &&
    a.shape.every((dim, axis) => {
      if (b.shape !== undefined && sameDim(dim, b.shape[axis])) return true;
      return own !== undefined && other?.length === own.length && sameDim(own[axis], other[axis]);
    })
  );
}

/** Outputs that could be an input's next content: of its size, whatever they depend on, and taken by no other. */
const presentsLike = (graph: Graph, past: Value, taken: ReadonlySet<Value>): readonly Value[] =>
  graph.outputs.filter((output) => !taken.has(output) && output !== past && hasSizeOf(past, output));

/** The pairs of states that `chosen` leaves over. */
export function carriedPairs(graph: Graph, chosen: readonly Pair[]): Pair[] {
  const [held, taken] = [new Set(chosen.map(({ past }) => past)), new Set(chosen.map(({ present }) => present))];
  const pasts = graph.inputs.filter((input) => !held.has(input) && hasFixedSize(input) && stateName.test(input.name));
  if (pasts.length === 0) return [];
  const readers = readersIn(graph);
  const options = new Map(
    pasts.map((past) => {
      const all = presentsLike(graph, past, taken);
      const behind = all.length === 0 ? new Set<Value>() : valuesBehind(past, readers);
      const following = all.filter((output) => behind.has(output));
      return [past, following.length > 0 ? following : all.filter(({ name }) => isNamedAfter(past.name, name))];
    }),
  );
  const chosenFor = (past: Value): Value | undefined => {
    const present = likest(past, options.get(past)!);
    if (present === undefined) return undefined;
    const rivals = pasts.filter((other) => options.get(other)!.includes(present));
    return likest(present, rivals) === past ? present : undefined;
  };
  const found = new Map(pasts.map((past) => [past, chosenFor(past)]));
  // Where one of several is left over, names have decided nothing for any of them.
  const unsettled = new Set(pasts.flatMap((past) => (found.get(past) === undefined ? options.get(past)! : [])));
  return pasts.flatMap((past): Pair[] => {
    const present = found.get(past);
    if (present === undefined || unsettled.has(present)) return [];
    return [{ past, present, kind: "update", writers: [], axis: undefined }];
  });
}

/** True for the names that exporters give a past and its present. */
const isNamedAfter = (past: string, present: string): boolean =>
  ["past_key_values", "past"].some((word) => past !== present && past.replace(word, "present") === present);

/** Names that have fewer letters in common say nothing. */
const leastLikeness = 3;

/** The value whose name is most like another's; undefined where there is none, or where two are alike. */
function likest({ name }: Value, values: readonly Value[]): Value | undefined {
  const ranked = values
    .map((value) => ({ value, likeness: likeness(name, value.name) }))
    .filter((each) => each.likeness >= leastLikeness)
    .toSorted((a, b) => b.likeness - a.likeness);
  return ranked.length > 1 && ranked[0].likeness === ranked[1].likeness ? undefined : ranked[0]?.value;
}

/** Letters that two names begin and end alike with; numbers that differ, such as those of layers, count against them. */
function likeness(a: string, b: string): number {
  const least = Math.min(a.length, b.length);
  let [head, tail] = [0, 0];
  while (head < least && a[head] === b[head]) head++;
  while (tail < least - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const numbers = (name: string): string => name.match(/\d+/g)?.join() ?? "";
  return head + tail - (numbers(a) === numbers(b) ? 0 : 1000);
}

function readersIn({ nodes }: Graph): ReadonlyMap<Value, readonly Node[]> {
  const readers = new Map<Value, Node[]>();
  for (const node of nodes)
    for (const value of readsOf(node)) {
      const list = readers.get(value);
      if (list === undefined) readers.set(value, [node]);
      else list.push(node);
    }
  return readers;
}

/** The values that are made of a value. */
function valuesBehind(value: Value, readers: ReadonlyMap<Value, readonly Node[]>): ReadonlySet<Value> {
  const found = new Set([value]);
  // A set hands out what is added to it while it is walked.
  for (const at of found)
    for (const node of readers.get(at) ?? [])
      for (const output of node.outputs) if (output !== undefined) found.add(output);
  return found;
}
