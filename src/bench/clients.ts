/**
 * The load `clients`: the loop that programs for onnxruntime have, each run's presents fed as the next one's pasts, with the same program on
 * insitu and on onnxruntime-node, each in a process of its own.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { exportedLlama } from "../demo/exported-llama.js";
import type { Model } from "../onnx/model.js";
import { writeModel } from "../onnx/write.js";
import { embeddedClientForm, embeddedSizes } from "./client-forms.js";
import type { ClientWork, DecodedTokens } from "./client-process.js";
import { logitsAgree, parametersText } from "./decode.js";
import type { PastPresentForm } from "./embedded-forms.js";
import { fullDecoder, pastPresentDecoder, tinyDecoder } from "./decoder-work.js";
import type { Contestant, Group, Load, Running, Setting } from "./load.js";
import { median } from "./measure.js";
import { PeerProcess } from "./peer-process.js";
import { once } from "./work.js";

const packageRoot = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const script = join(packageRoot, "dist/bench/client-process.js");

/** A model, and the context that tokens are made behind. */
interface ClientModel {
  readonly name: string;
  readonly model: () => Model;
  readonly context: number;
  /** Rows that it has positions for. */
  readonly most: number;
  readonly vocabulary: number;
  /** Tokens that one turn is made of. */
  readonly tokens: number;
}

/** Who runs the program, and how. */
interface ClientRuntime {
  readonly name: string;
  readonly entry: string;
}

/** onnxruntime-node where it is installed, as the benchmark found it. */
function runtimesOf({ peers }: Setting): readonly ClientRuntime[] {
  const insitu = { name: "insitu", entry: join(packageRoot, "dist/onnxruntime.node.js") };
  if (!peers.some(({ name }) => name === "onnxruntime-node")) return [insitu];
  const places = [join(packageRoot, "peers/package.json"), join(process.cwd(), "package.json")];
  for (const place of places)
    try {
      return [insitu, { name: "onnxruntime-node", entry: createRequire(place).resolve("onnxruntime-node") }];
    } catch {
      // The next place may have it.
    }
  return [insitu];
}

/** One runtime in a process of its own. */
const clientOf = (
  { name, entry }: ClientRuntime,
  { context, most, vocabulary, tokens }: ClientModel,
  threads: number,
  file: () => string,
): Contestant => ({
  name,
  runtime: name,
  async start(): Promise<Running> {
    const client = new PeerProcess(name, script);
    try {
      const work: ClientWork = { runtime: entry, model: file(), threads, context, most, vocabulary };
      await client.ask("open", [work]);
    } catch (error) {
      client.end();
      throw error;
    }
    let [made, first, last] = [0, 0, 0];
    return {
      async run() {
        const { times, residentBytes } = (await client.ask("decode", [tokens])) as DecodedTokens;
        made += times.length + 1;
        if (first === 0) first = residentBytes;
        last = residentBytes;
        return median(times);
      },
      result: async () => Float32Array.from((await client.ask("logits", [])) as number[]),
      figures: () => ({ tokens: made, "MiB more memory behind them": (last - first) / 2 ** 20 }),
      async stop() {
        await client.ask("stop", []).catch(() => undefined);
        client.end();
      },
    };
  },
});

function groupOf(client: ClientModel, setting: Setting): Group {
  let folder: string | undefined;
  const file = once(() => {
    folder = mkdtempSync(join(tmpdir(), "insitu-clients-"));
    const path = join(folder, "model.onnx");
    writeFileSync(path, writeModel(client.model()));
    return path;
  });
  return {
    name: client.name,
    contestants: runtimesOf(setting).map((runtime) => clientOf(runtime, client, setting.threads, file)),
    check: logitsAgree,
    stop: async () => {
      if (folder !== undefined) rmSync(folder, { recursive: true });
    },
  };
}

/** The load. */
export const clients: Load = {
  name: "clients",
  description: "programs for onnxruntime that feed presents back, in processes of their own",
  groups(setting) {
    const { quick } = setting;
    const load = quick ? tinyDecoder : fullDecoder;
    const { vocabulary, positions } = embeddedSizes();
    const embedded = (form: PastPresentForm, context: number): ClientModel => ({
      name: `presents fed back: the embedded model, ${form}, at context ${context}`,
      model: () => embeddedClientForm(form, 4),
      context,
      most: form === "Concat" ? 2 * positions + context : positions,
      vocabulary,
      tokens: quick ? 2 : 8,
    });
    const large: ClientModel = {
      name: `presents fed back: GroupQueryAttention at context ${load.context}, ${parametersText(load)}`,
      model: () => pastPresentDecoder(load),
      context: load.context,
      most: load.sizes.positions,
      vocabulary: load.sizes.vocabulary,
      tokens: 2,
    };
    const written = (context: number): ClientModel => ({
      name: `presents fed back: the embedded model's shape as PyTorch exports it, at context ${context}`,
      model: () => exportedLlama({ ...embeddedSizes(), intermediate: 1024, seed: 3 }),
      context,
      most: 2 * context + 2000,
      vocabulary,
      tokens: quick ? 2 : 8,
    });
    return [
      embedded("GroupQueryAttention", quick ? 12 : 400),
      ...(quick ? [12] : [400, 2048]).map(written),
      embedded("Concat", quick ? 12 : 400),
      ...(quick ? [] : [embedded("Concat", 4096)]),
      large,
    ].map((client) => groupOf(client, setting));
  },
};
