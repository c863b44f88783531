/**
 * llama.cpp's servers beside ours. It gives every text room for the longest, so that there are two: one for few long texts and one for many
 * short ones. Where it cannot run here, that is told and nothing else fails.
 */
import { startLlamaOnGpu } from "../serve/llama-server.js";
import type { ServerProcesses } from "../serve/server-processes.js";
import { type DeviceLoad, longestOf, textsOf } from "./loads.js";
import type { ServedModel } from "./served-model.js";
import { serverTeller, type Teller } from "./teller.js";

/** The servers of a run. */
interface Llamas {
  /** Who is asked under a load: one, or nobody. */
  tellers(load: DeviceLoad): readonly Teller[];
  readonly failed: readonly { readonly name: string; readonly problem: string }[];
}

const isMany = (load: DeviceLoad): boolean => load.kind === "many";

/** Starts those that the loads need; none without a model for them. */
export async function startLlamas(
  model: ServedModel["llama"],
  loads: readonly DeviceLoad[],
  servers: ServerProcesses,
): Promise<Llamas> {
  const started = new Map<boolean, Teller>();
  const failed: { readonly name: string; readonly problem: string }[] = [];
  if (model === undefined) return { tellers: () => [], failed };
  const asked = loads.filter(({ kind }) => kind !== "step");
  for (const many of [false, true]) {
    const own = asked.filter((load) => isMany(load) === many);
    if (own.length === 0 || failed.length > 0) continue;
    const [texts, room] = [Math.max(...own.map(textsOf)), Math.max(...own.map(longestOf))];
    try {
      const child = startLlamaOnGpu(model.gguf(), texts, room, model.layers);
      const target = await servers.add("node-llama-cpp", child);
      started.set(many, serverTeller("llama.cpp", "node-llama-cpp", target));
    } catch (error) {
      failed.push({ name: "node-llama-cpp", problem: (error as Error).message });
    }
  }
  return {
    tellers: (load) => {
      const teller = started.get(isMany(load));
      return teller === undefined ? [] : [teller];
    },
    failed,
  };
}
