/**
 * The load `device`: a decoder in the shape of Qwen3-0.6B, as published, on a GPU: tokens, prompts, many texts, cache writes, attention, the
 * first token. Peers run in processes of their own, on the same files.
 */
import type { Load } from "../load.js";
import type { DecoderEntry } from "./decoder.js";
import { decoderGroups } from "./decoder-groups.js";
import { firstTokenGroup } from "./first-token.js";
import { isSoftware } from "./gpu.js";
import { byDefault, byGenerate } from "./insitu-decoders.js";
import { KeptDecoder } from "./kept.js";
import { ModelFiles, type WeightKind } from "./model-files.js";
import { attentionGroup, attentionGrowth, writeGroup } from "./operator-groups.js";
import { findDevicePeers } from "./peer-processes.js";
import { batchText, fullSizes, longestText, smallSizes } from "./sizes.js";
import { byRun } from "./stepping-decoder.js";

const kinds: readonly WeightKind[] = ["plain", "int4"];

/** What is to be stopped when the load is done. */
let stopping: (() => Promise<void>) | undefined;

/** The load. */
export const device: Load = {
  name: "device",
  description: "a published decoder on a GPU: tokens, prompts, many texts, single operators",
  backend: "webgpu",
  groups(setting) {
    const sizes = setting.quick ? smallSizes : fullSizes;
    const files = new ModelFiles(sizes);
    const kept: KeptDecoder[] = [];
    const keep = (entry: DecoderEntry): KeptDecoder => {
      const decoder = new KeptDecoder(entry);
      kept.push(decoder);
      return decoder;
    };
    stopping = async () => {
      for (const decoder of kept) await decoder.stop();
      files.remove();
    };
    const peers = setting.alone === true ? [] : findDevicePeers().peers;
    const growth = attentionGrowth(sizes, setting);
    const groups = kinds.flatMap((kind) => {
      const of = (): ReturnType<ModelFiles["of"]> => files.of(kind);
      const generate = keep(byGenerate(of, sizes, setting.backend, "linear", longestText(sizes)));
      const batched = keep(byGenerate(of, sizes, setting.backend, "linear", batchText(sizes)));
      const run = keep(byRun(of, sizes, setting.backend, "linear"));
      const runPaged = keep(byRun(of, sizes, setting.backend, "paged"));
      const chunked = keep(byDefault(of, setting.backend, "insitu, generate, default chunk", longestText(sizes)));
      const long = keep(byDefault(of, setting.backend, "insitu, generate, default chunk", sizes.longPrompt + 8));
      const usual = keep(byDefault(of, setting.backend, "insitu, generateBatch, default options"));
      const paged = keep(byGenerate(of, sizes, setting.backend, "paged", batchText(sizes)));
      const told = async () => ({
        sizes: sizes.model,
        type: sizes.type,
        longest: longestText(sizes),
        software: await isSoftware(),
      });
      const others = peers.map((peer) => keep(peer.entry({ files: of, gguf: () => files.gguf(kind), told })));
      return decoderGroups(
        kind,
        {
          single: [generate, run, ...others],
          chunked,
          long,
          many: [batched, usual, paged, run, runPaged, ...others],
          whole: [usual, paged],
        },
        sizes,
        growth,
      );
    });
    return [
      ...groups,
      writeGroup(sizes, setting),
      attentionGroup(sizes, setting),
      ...(setting.program === undefined
        ? []
        : [firstTokenGroup(kinds, (kind) => files.of(kind), sizes, setting.program)]),
    ];
  },
  found: () => findDevicePeers(),
  async stop() {
    await stopping?.();
    stopping = undefined;
  },
};
