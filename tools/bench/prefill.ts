/** The load `prefill`: a whole prompt through a decoder with 8-bit weights, from an empty cache. */
import { writeModel } from "#insitu/onnx/write.js";
import { logitsAgree, parametersText } from "./decode.js";
import {
  fullDecoder,
  inPlaceDecoder,
  inPlaceFeeds,
  pastPresentDecoder,
  pastPresentFeeds,
  tinyDecoder,
} from "./decoder-work.js";
import type { Load } from "./load.js";
import { once, startInsitu, startPeer, type Work } from "./work.js";

/** The load. */
export const prefill: Load = {
  name: "prefill",
  description: "a prompt through a whole decoder",
  groups(setting) {
    const load = setting.quick ? tinyDecoder : fullDecoder;
    const { prompt, capacity } = load;
    const outputs = ["logits"];
    const ours: Work = {
      model: () => writeModel(inPlaceDecoder(load)),
      rounds: [inPlaceFeeds(load, 0, prompt)],
      outputs,
    };
    const theirs: Work = {
      model: once(() => writeModel(pastPresentDecoder(load))),
      rounds: [pastPresentFeeds(load, 0, prompt, 0)],
      outputs,
    };
    return [
      {
        name: `${prompt} tokens, ${parametersText(load)}`,
        contestants: [
          {
            name: "insitu, caches in a state",
            runtime: "insitu",
            // Every run writes the same rows anew: the feeds say where.
            start: () => startInsitu(ours, setting, { options: { dims: { batch: 1, capacity } }, contents: [{}] }),
          },
          ...setting.peers.map((peer) => ({
            name: `${peer.name}, present fetched`,
            runtime: peer.name,
            start: () => startPeer(theirs, peer),
          })),
        ],
        check: logitsAgree,
      },
    ];
  },
};
