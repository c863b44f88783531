/**
 * The load `models`: decoders in the shapes of published ones, weights of 4 bits made by code, as a user meets them: loading, the first token
 * behind a prompt, tokens behind a short and a long context, memory. Everyone runs in a process of its own, on the same weights.
 */
import { smallPublishedSizes } from "../../demo/published-decoder.js";
import { gptOss, type PublishedShape, publishedShapes, qwen3 } from "../../demo/published-shapes.js";
import { awake } from "../device/awake.js";
import { isSoftware } from "../device/gpu.js";
import { fullSizes, promptOf } from "../device/sizes.js";
import type { Contestant, Group, Load, Result, Setting } from "../load.js";
import { once } from "../work.js";
import type { OpenedModel } from "./decoder-process.js";
import { findModelPeers, modelRuntimes, RunningModel } from "./runtimes.js";
import { type ShapeFiles, ShapeFolders } from "./shape-files.js";

/** How long the texts are, and how many tokens one run makes. */
interface Lengths {
  readonly prompt: number;
  readonly long: number;
  readonly tokens: number;
}

const fullLengths: Lengths = { prompt: 512, long: 4096, tokens: 16 };
/** A GPU makes tokens in so little time that more of them make a run. */
const gpuLengths: Lengths = { ...fullLengths, tokens: 64 };
const smallLengths: Lengths = { prompt: 24, long: 40, tokens: 3 };

/** For tests: everything the shapes have, small. */
const smallShapes: readonly PublishedShape[] = [
  { ...qwen3, name: "small, with norms of heads", sizes: smallPublishedSizes },
  {
    name: "small, with scaled frequencies",
    modelType: "llama",
    sizes: {
      ...smallPublishedSizes,
      ropeScaling: { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 64 },
      epsilon: 1e-5,
    },
    form: { ...qwen3.form, headNorms: "none" },
  },
  {
    ...gptOss,
    name: "small, with experts",
    sizes: {
      ...smallPublishedSizes,
      intermediate: 64,
      ropeScaling: { kind: "yarn", factor: 4, fast: 32, slow: 1, originalPositions: 64 },
      experts: { count: 4, chosen: 2, limit: 7 },
      window: 16,
    },
    isLarge: false,
  },
];

/** Prompts whose next token everyone must agree on. */
const [asked, askedLength] = [8, 12];

/** Random weights have close calls, and everyone rounds activations in a way of its own: so many of the tokens may differ. */
const mayDiffer = 3;

const tokensAgree: Group["check"] = (results) => {
  const [first, ...others] = results;
  const problems = new Map<string, string>();
  for (const [name, result] of others) {
    const expected = first[1] as Int32Array;
    const differing = expected.filter((token, at) => token !== (result as Int32Array)[at]).length;
    if (differing > mayDiffer) problems.set(name, `chooses ${differing} of ${expected.length} tokens otherwise`);
  }
  return problems;
};

/** A shape's groups: who takes part keeps its process from the first to the last. */
function shapeGroups(shape: PublishedShape, lengths: Lengths, folders: ShapeFolders, setting: Setting): Group[] {
  const { name, sizes } = shape;
  const { quick, backend, threads, tell = () => {} } = setting;
  const runtimes = modelRuntimes(setting);
  const gpu = backend === "webgpu";
  // Programs that play a GPU, which small shapes are for, have no float16.
  const type = gpu && !quick ? "float16" : "float32";
  const wakeMilliseconds = gpu && !quick ? fullSizes.wakeMilliseconds : 0;
  const files = once((): ShapeFiles =>
    folders.of(shape, {
      gguf: runtimes.some(({ readsGguf }) => readsGguf),
      gpu: gpu ? type : undefined,
      tell,
    }),
  );
  const opened = async (): Promise<OpenedModel> => ({
    ...files(),
    layers: sizes.layers,
    keyValueHeads: sizes.keyValueHeads,
    headSize: sizes.headSize,
    type,
    context: lengths.long + lengths.tokens + 8,
    threads,
    gpu,
    software: gpu && (await isSoftware()),
    backend,
  });
  const running = runtimes.map((runtime) => new RunningModel(runtime, opened));
  const stopAll = async (): Promise<void> => {
    for (const each of running) await each.stop();
  };
  // Where only some groups run, the last one may not be among them.
  leaving.push(stopAll);

  const contestant = (
    model: RunningModel,
    work: () => Promise<number>,
    figures: (medianMs: number) => Record<string, number>,
  ): Contestant => {
    let memory: Record<string, number> = {};
    let isFirst = true;
    /** Telling what a GPU has takes so long that it comes to rest: that is done around the first run, which does not count. */
    const counted = <T>(part: () => Promise<T>): Promise<T> => (gpu ? model.onDevice(part) : part());
    return {
      name: model.runtime.name,
      runtime: model.runtime.runtime,
      async start() {
        const decoder = await model.get();
        return {
          async run() {
            const took = isFirst ? await counted(work) : await awake(work, wakeMilliseconds);
            isFirst = false;
            const { peak } = await decoder.memory();
            const { deviceBytes } = model;
            memory = {
              "MiB at most": peak / 2 ** 20,
              "of the file": peak / files().bytes,
              ...(deviceBytes === undefined ? {} : { "MiB on the device": deviceBytes / 2 ** 20 }),
            };
            return took;
          },
          result: async (): Promise<Result> => {
            const prompts = Array.from({ length: asked }, (_, text) => promptOf(1000 + text, askedLength, sizes));
            return Int32Array.from(await counted(() => decoder.next(prompts)));
          },
          figures: (medianMs) => ({ ...figures(medianMs), ...memory }),
          stop: () => Promise.resolve(),
        };
      },
    };
  };

  let text = 2000;
  const tokenGroup = (context: number, repeats: number): Group => {
    const prompt = promptOf(context, context, sizes);
    return {
      name: `${name}: one token at context ${context}`,
      contestants: running.map((model) =>
        contestant(
          model,
          async () => (await model.get()).decode(prompt, lengths.tokens),
          (medianMs) => ({
            "tokens a second": 1000 / medianMs,
            ...(model.runtime.runtime === "insitu"
              ? { "GB/s read": bytesRead(shape, context, type) / medianMs / 1e6 }
              : {}),
          }),
        ),
      ),
      repeats,
      check: tokensAgree,
    };
  };
  return [
    {
      name: `${name}: loading, ${sizeText(shape)}${gpu ? `, ${type}` : ""}`,
      contestants: running.map((model): Contestant => ({
        name: model.runtime.name,
        runtime: model.runtime.runtime,
        start: async () => ({
          run: () => model.restart(),
          result: () => Promise.resolve(new Uint8Array()),
          figures: () => ({ "MB of the ONNX file": files().bytes / 1e6 }),
          stop: () => Promise.resolve(),
        }),
      })),
      repeats: 3,
      isCold: true,
      check: () => new Map(),
    },
    {
      name: `${name}: the first token behind a prompt of ${lengths.prompt}`,
      // Each run reads another text: nothing of it was read before.
      contestants: running.map((model) =>
        contestant(
          model,
          async () => (await model.get()).prefill(promptOf(text++, lengths.prompt, sizes)),
          (medianMs) => ({ "prompt tokens a second": (1000 * lengths.prompt) / medianMs }),
        ),
      ),
      repeats: 3,
      check: tokensAgree,
    },
    tokenGroup(lengths.prompt, 7),
    { ...tokenGroup(lengths.long, 5), stop: stopAll },
  ];
}

/** What a token reads at least: every weight of the products once, in 4 bits with a scale for each 32, and the caches' rows. */
function bytesRead({ sizes }: PublishedShape, context: number, type: OpenedModel["type"]): number {
  const element = type === "float32" ? 4 : 2;
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = sizes;
  const { chosen } = sizes.experts ?? { chosen: 1 };
  const layer = hidden * headSize * 2 * (heads + keyValueHeads) + 3 * chosen * hidden * intermediate;
  const weights = layers * layer + hidden * vocabulary;
  const rows = (context + Math.min(context, sizes.window ?? context)) / 2;
  return (weights / 32) * (16 + element) + 2 * layers * keyValueHeads * headSize * rows * element;
}

/** `28 layers of 1024, vocabulary 151,936` */
const sizeText = ({ sizes: { layers, hidden, vocabulary } }: PublishedShape): string =>
  `${layers} layers of ${hidden}, vocabulary ${vocabulary.toLocaleString("en-US")}`;

/** What is to be let go of when the load is done. */
let leaving: (() => Promise<void>)[] = [];

/** The load. */
export const models: Load = {
  name: "models",
  description: "decoders in the shapes of published ones, weights of 4 bits: loading, first token, tokens, memory",
  groups(setting) {
    const folders = new ShapeFolders();
    leaving.push(async () => folders.remove());
    const full = setting.backend === "webgpu" ? gpuLengths : fullLengths;
    const [shapes, lengths] = setting.quick ? [smallShapes, smallLengths] : [publishedShapes, full];
    return shapes.flatMap((shape) => {
      const groups = shapeGroups(shape, lengths, folders, setting);
      return shape.isLarge === true ? groups.map((group) => ({ ...group, largeName: shape.name })) : groups;
    });
  },
  found: () => findModelPeers(),
  async stop() {
    // Processes before the files that they read.
    const all = leaving.toReversed();
    leaving = [];
    for (const leave of all) await leave();
  },
};
