/**
 * The load `attention`: one query a head over a long KV cache, written and read in one step. How the cost follows the valid length, and
 * what one kernel for write and read would gain.
 */
import { writeModel } from "#insitu/onnx/write.js";
import {
  attended,
  attentionFeeds,
  type AttentionFeeds,
  type AttentionSizes,
  attentionWork,
  groupQueryWork,
  inPlaceFeeds,
  inPlaceModel,
  validBytes,
} from "./attention-work.js";
import type { Contestant, Group, Load, Result, Setting } from "./load.js";
import type { Peer } from "./peers.js";
import { copiesOf, farOff, type Fetching, once, startInsitu, startPeer } from "./work.js";

const full = { heads: 32, kvHeads: 8, head: 128, capacity: 8192, valid: 4096 } as const;
const tiny = { heads: 4, kvHeads: 2, head: 16, capacity: 64, valid: 32 } as const;

/** What a result may be off by, as a part of the results' typical size: float16 rounds the result itself. */
const tolerance = { float32: 1e-3, float16: 1e-2 } as const;

/** insitu: the caches lie in states. */
const byInsitu = (name: string, sizes: AttentionSizes, feeds: () => AttentionFeeds, setting: Setting): Contestant => ({
  name,
  runtime: "insitu",
  start: () => {
    const { key, value } = feeds().cacheBefore;
    const contents = Array.from({ length: copiesFor(sizes, setting) }, () => ({ past_key: key, past_value: value }));
    const work = {
      model: () => writeModel(inPlaceModel(sizes)),
      rounds: [inPlaceFeeds(feeds(), sizes)],
      outputs: ["attended"],
    };
    return startInsitu(work, setting, { contents });
  },
});

const copiesFor = (sizes: AttentionSizes, { quick }: Setting): number => (quick ? 2 : copiesOf(validBytes(sizes)));

const presentDropped: Fetching = () => ({ attended: null });
const presentBound: Fetching = (fed) => ({
  attended: null,
  present_key: fed["past_key"],
  present_value: fed["past_value"],
});

function byPeer(peer: Peer, sizes: AttentionSizes, feeds: () => AttentionFeeds, setting: Setting): Contestant[] {
  const copies = copiesFor(sizes, setting);
  const runtime = peer.name;
  const groupQuery = (name: string, fetching: Fetching): Contestant => ({
    name: `${runtime}, GroupQueryAttention, ${name}`,
    runtime,
    start: () => startPeer(groupQueryWork(sizes, feeds(), copies), peer, fetching),
  });
  return [
    groupQuery("the new cache dropped", presentDropped),
    groupQuery("one tensor bound as both", presentBound),
    {
      name: `${runtime}, Attention-24, nothing written`,
      runtime,
      start: () => startPeer(attentionWork(sizes, feeds(), copies), peer),
    },
  ];
}

/** Compares every result with plain loops. */
function checkBy(expected: (contestant: string) => { sizes: AttentionSizes; feeds: AttentionFeeds }): Group["check"] {
  return (results: ReadonlyMap<string, Result>) => {
    const known = new Map<AttentionSizes, Float32Array>();
    const problems = new Map<string, string>();
    for (const [name, result] of results) {
      const { sizes, feeds } = expected(name);
      const right = known.get(sizes) ?? attended(sizes, feeds);
      known.set(sizes, right);
      const problem = farOff(result as Float32Array, right, tolerance[sizes.type]);
      if (problem !== undefined) problems.set(name, problem);
    }
    return problems;
  };
}

const cacheText = ({ type, heads, kvHeads, head, valid, capacity }: AttentionSizes): string =>
  `${type}, ${heads}/${kvHeads} heads of ${head}, ${valid} valid of ${capacity}`;

/** One step over a long cache: everyone. */
function longCache(type: AttentionSizes["type"], setting: Setting): Group {
  const sizes = { type, ...(setting.quick ? tiny : full) };
  const feeds = once(() => attentionFeeds(sizes));
  return {
    name: `one step, ${cacheText(sizes)}`,
    contestants: [
      byInsitu("insitu, TensorScatter and Attention", sizes, feeds, setting),
      ...setting.peers.flatMap((peer) => byPeer(peer, sizes, feeds, setting)),
    ],
    check: checkBy(() => ({ sizes, feeds: feeds() })),
  };
}

/** The same capacity with an eighth of the rows: the cost is to follow. */
function shortLength(setting: Setting): Group {
  const long: AttentionSizes = { type: "float32", ...(setting.quick ? tiny : full) };
  const short = { ...long, valid: long.valid / 8 };
  const [longFeeds, shortFeeds] = [long, short].map((sizes) => once(() => attentionFeeds(sizes)));
  const longName = `insitu, ${long.valid} valid`;
  return {
    name: `the cost follows the valid length: ${cacheText(short)}`,
    contestants: [
      byInsitu(`insitu, ${short.valid} valid`, short, shortFeeds, setting),
      byInsitu(longName, long, longFeeds, setting),
    ],
    check: checkBy((name) =>
      name === longName ? { sizes: long, feeds: longFeeds() } : { sizes: short, feeds: shortFeeds() },
    ),
  };
}

/** The load. */
export const attention: Load = {
  name: "attention",
  description: "one decode step of attention over a long KV cache",
  groups: (setting) => [longCache("float32", setting), longCache("float16", setting), shortLength(setting)],
};
