/** One run without a state, in the way that its feeds ask for: presents kept inside, or results like others; lengths fed, or counted. */
import type { Value } from "../graph/graph.js";
import { isTensor, type Tensor } from "../tensor/tensor.js";
import { feedsWithLengths, growingFeeds, leavesLengthsOut } from "./counted-lengths.js";
import type { Feeds } from "./feeds.js";
import { broughtToHost } from "./handles.js";
import { KeptPresents } from "./kept-presents.js";
import { runPlainly } from "./plain-run.js";
import type { Parts } from "./session.js";

type Results = Record<string, Tensor>;

/** Runs the model once on what is fed. */
export async function runWithoutState(
  parts: Parts,
  feeds: Feeds,
  wanted: ReadonlyMap<Value, Tensor | null> | undefined,
): Promise<Results> {
  const { presents, counted } = parts;
  // What stands behind a name may be a getter: it is asked once.
  const isObject = typeof feeds === "object" && feeds !== null && !Array.isArray(feeds) && !isTensor(feeds);
  const taken = isObject ? { ...feeds } : feeds;
  const grows = counted !== undefined && leavesLengthsOut(counted, taken);
  const given = grows ? growingFeeds(counted, taken) : taken;
  const plainly = async (own: Feeds): Promise<Results> => {
    if (!grows) return runPlainly(parts, own, wanted);
    const brought = broughtToHost(own, parts);
    return runPlainly(parts, feedsWithLengths(counted, brought === undefined ? own : await brought), wanted);
  };
  // Whoever feeds a decoder lengths has caches of a capacity.
  if (!(presents instanceof KeptPresents) || (counted !== undefined && !grows)) return plainly(given);
  const brought = broughtToHost(given, parts, presents);
  const fed = brought === undefined ? given : await brought;
  return presents.run(parts, fed, wanted ?? parts.pairings.own.standing.outputs, plainly);
}
