/** One run without a state: pasts are feeds, presents are results like others, and nothing that is fed is ever written. */
import type { Value } from "../graph/graph.js";
import type { Placed } from "../tensor/placed.js";
import type { Tensor } from "../tensor/tensor.js";
import { type Feeds, inOrder, readFeeds } from "./feeds.js";
import { broughtToHost } from "./handles.js";
import { targetsOnDevice } from "./output-locations.js";
import { buffersOf, makeResults, Taken } from "./results.js";
import type { Parts } from "./session.js";
import { placeInSlot } from "./slots.js";

const nothingHeld: ReadonlyMap<Value, Placed> = new Map();
const nothingOmitted: ReadonlySet<Value> = new Set();

/** Runs the model once on what is fed; presents that stay on a device come from there first. */
export async function runPlainly(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
): Promise<Record<string, Tensor>> {
  const brought = broughtToHost(feeds, parts);
  if (brought !== undefined) return runPlainly(parts, await brought, wanted);
  const slotOf = (tensor: unknown): Placed | undefined => placeInSlot(tensor, parts);
  const known = parts.pairings.own.standing;
  const differing = parts.apart && new Set<string>();
  const inputs = readFeeds(parts.graph, known.inputs, feeds, nothingHeld, nothingOmitted, slotOf, differing);
  const views = inOrder(parts.graph, inputs);
  const isApart = differing !== undefined && differing.size > 0;
  const { functional, standing } = isApart
    ? parts.apart!.for(differing)
    : { functional: parts.functional, standing: known };
  const program = functional.programFor(views);
  const asked = wanted === undefined ? standing.outputs : isApart ? byName(wanted, standing.outputs) : wanted;
  const targets = targetsOnDevice(asked, parts.staysOnDevice, program, parts, functional);
  const taken = new Taken(views, standing.of(program).taken);
  return functional.run(program, views, buffersOf(targets, taken, program, slotOf), (outputs) => {
    const { results, moves } = makeResults(targets, outputs, taken, functional, slotOf);
    functional.copy(moves);
    return results;
  });
}

/** What is wanted, of another graph's outputs of the same names. */
function byName(
  wanted: ReadonlyMap<Value, Tensor | null>,
  outputs: ReadonlyMap<Value, null>,
): ReadonlyMap<Value, Tensor | null> {
  const own = new Map([...outputs.keys()].map((value) => [value.name, value]));
  return new Map([...wanted].map(([{ name }, target]) => [own.get(name)!, target]));
}
