/**
 * The load `clients`: the loop that programs for onnxruntime have, each run's presents fed as the next one's pasts, with the same program on
 * insitu and on onnxruntime-node, each in a process of its own.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkout } from "../checkout.js";
import { exportedLlama } from "../demo/exported-llama.js";
import type { Model } from "#insitu/onnx/model.js";
import { writeModel } from "#insitu/onnx/write.js";
import { clientContestant } from "./client-contestant.js";
import { embeddedClientForm, embeddedSizes } from "./client-forms.js";
import type { ClientWork } from "./client-process.js";
import { logitsAgree, parametersText } from "./decode.js";
import type { PastPresentForm } from "./embedded-forms.js";
import { fullDecoder, pastPresentDecoder, tinyDecoder } from "./decoder-work.js";
import type { Contestant, Group, Load, Setting } from "./load.js";
import { transformersGroups } from "./transformers.js";
import { once } from "./work.js";

const script = join(checkout, "dist/tools/bench/client-process.js");

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
  const insitu = { name: "insitu", entry: join(checkout, "dist/lib/onnxruntime.node.js") };
  if (!peers.some(({ name }) => name === "onnxruntime-node")) return [insitu];
  const places = [join(checkout, "peers/package.json"), join(process.cwd(), "package.json")];
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
): Contestant =>
  clientContestant({
    name,
    runtime: name,
    script,
    work: (): ClientWork => ({ runtime: entry, model: file(), threads, context, most, vocabulary }),
    tokens,
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
    const embedded = (form: PastPresentForm, context: number, accuracyLevel: 0 | 4 = 4): ClientModel => ({
      name: `presents fed back: the embedded model, ${form}, ${levelText[accuracyLevel]}at context ${context}`,
      model: () => embeddedClientForm(form, accuracyLevel),
      context,
      most: form === "Concat" ? 2 * positions + context : positions,
      vocabulary,
      tokens: quick ? 2 : 8,
    });
    const large = {
      context: load.context,
      most: load.sizes.positions,
      vocabulary: load.sizes.vocabulary,
      tokens: 2,
    };
    const grouped = (accuracyLevel: 0 | 4): ClientModel => ({
      name: `presents fed back: GroupQueryAttention, ${levelText[accuracyLevel]}at context ${load.context}, ${parametersText(load)}`,
      model: () => pastPresentDecoder(load, accuracyLevel),
      ...large,
    });
    const largeWritten: ClientModel = {
      name: `presents fed back: the same shape as PyTorch exports it, float32, at context ${load.context}`,
      model: () => exportedLlama(load.sizes),
      ...large,
    };
    const written = (context: number): ClientModel => ({
      name: `presents fed back: the embedded model's shape as PyTorch exports it, at context ${context}`,
      model: () => exportedLlama({ ...embeddedSizes(), intermediate: 1024, seed: 3 }),
      context,
      most: 2 * context + 2000,
      vocabulary,
      tokens: quick ? 2 : 8,
    });
    const models = [
      embedded("GroupQueryAttention", quick ? 12 : 400),
      embedded("GroupQueryAttention", quick ? 12 : 400, 0),
      ...(quick ? [12] : [400, 2048]).map(written),
      embedded("Concat", quick ? 12 : 400),
      ...(quick ? [] : [embedded("Concat", 4096)]),
      grouped(4),
      ...(quick ? [] : [grouped(0), largeWritten]),
    ];
    const levels = quick ? ([0] as const) : ([4, 0] as const);
    return [
      ...models.map((client) => groupOf(client, setting)),
      ...transformersGroups(
        setting,
        levels.map((accuracyLevel) => ({ form: "GroupQueryAttention", accuracyLevel })),
      ),
    ];
  },
};

/** How a group's name tells of products that may not round activations to 8 bits; those that may are the usual ones. */
const levelText = { 4: "", 0: "accuracy level 0, " } as const;
