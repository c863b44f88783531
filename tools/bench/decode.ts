/** The load `decode`: one token of a whole decoder with 8-bit weights behind a long context. */
import { writeModel } from "#insitu/onnx/write.js";
import { contextGroup } from "./context-cost.js";
import {
  cacheNames,
  type DecoderLoad,
  filledCaches,
  fullDecoder,
  inPlaceDecoder,
  inPlaceFeeds,
  parameterCount,
  pastPresentDecoder,
  pastPresentFeeds,
  tinyDecoder,
} from "./decoder-work.js";
import * as embedded from "./embedded-decode.js";
import { type Contestant, type Group, likeTheFirst, type Load, type Setting } from "./load.js";
import type { Peer } from "./peers.js";
import { farOnTheWhole, type Fetching, once, startInsitu, startPeer, type Work } from "./work.js";

/** What logits may be off by, as a part of their size: onnxruntime-node rounds activations to 8 bits in every product. */
const tolerance = 0.05;

/** A decoder's results agree with insitu's. */
export const logitsAgree: Group["check"] = likeTheFirst((result, expected) =>
  farOnTheWhole(result as Float32Array, expected as Float32Array, tolerance),
);

/** `125 M parameters` */
export const parametersText = (load: DecoderLoad): string =>
  `${(parameterCount(load) / 1e6).toPrecision(3)} M parameters, 8-bit weights`;

const byInsitu = (load: DecoderLoad, setting: Setting): Contestant => ({
  name: "insitu, caches in a state",
  runtime: "insitu",
  start() {
    const { capacity, context } = load;
    const work: Work = {
      model: () => writeModel(inPlaceDecoder(load)),
      rounds: [inPlaceFeeds(load, context - 1, context)],
      outputs: ["logits"],
    };
    const contents = [filledCaches(load, context - 1, capacity)];
    return startInsitu(work, setting, { options: { dims: { batch: 1, capacity } }, contents });
  },
});

/** Every cache that is fed is also what its present is written into. */
const bound =
  (load: DecoderLoad): Fetching =>
  (fed) => ({
    logits: null,
    ...Object.fromEntries(cacheNames(load, "past").map((name) => [name.replace("past", "present"), fed[name]])),
  });

function byPeer(load: DecoderLoad, model: () => Uint8Array, peer: Peer): Contestant[] {
  const { context, capacity } = load;
  const work = (room: number): Work => ({
    model,
    rounds: [pastPresentFeeds(load, context - 1, context, room)],
    outputs: ["logits"],
  });
  const runtime = peer.name;
  return [
    {
      name: `${runtime}, past fed, present fetched`,
      runtime,
      start: () => startPeer(work(context - 1), peer),
    },
    {
      name: `${runtime}, one tensor bound as both`,
      runtime,
      start: () => startPeer(work(capacity), peer, bound(load)),
    },
  ];
}

/** The embedded model, each token behind the ones before: past and present as transformers.js hands them on, and the very same file. */
function embeddedGroups(setting: Setting): Group[] {
  const window: embedded.Window = setting.quick ? { first: 20, last: 24 } : { first: 496, last: 512 };
  const up = `token by token up to context ${window.last}`;
  const [native, ...others] = setting.peers.toSorted((a, b) => Number(b.profiles) - Number(a.profiles));
  const [grouped, joined, same] = embedded.peerForms(window);
  const by = (peer: Peer | undefined, ...forms: embedded.PeerForm[]): Contestant[] =>
    peer === undefined ? [] : forms.map((form) => embedded.byPeer(window, peer, form));
  return [
    {
      name: `the embedded model, ${up}`,
      contestants: [
        embedded.byInsitu(window, setting),
        embedded.byText(window, setting),
        ...by(native, grouped, joined),
      ],
      check: logitsAgree,
    },
    {
      name: `the same file in other hands, ${up}`,
      contestants: [
        embedded.byInsitu(window, setting),
        ...by(native, same),
        ...others.flatMap((peer) => by(peer, grouped, same)),
      ],
      check: logitsAgree,
    },
  ];
}

/** The load. */
export const decode: Load = {
  name: "decode",
  description: "one token of a whole decoder behind a long context",
  groups(setting) {
    const load = setting.quick ? tinyDecoder : fullDecoder;
    const theirs = once(() => writeModel(pastPresentDecoder(load)));
    return [
      {
        name: `one token at context ${load.context}, ${parametersText(load)}`,
        contestants: [byInsitu(load, setting), ...setting.peers.flatMap((peer) => byPeer(load, theirs, peer))],
        check: logitsAgree,
      },
      ...embeddedGroups(setting),
      contextGroup(setting),
    ];
  },
};
