/**
 * The load `models`: decoders in the shapes of published ones, weights of 4 bits made by code, as a user meets them: loading, the first token
 * behind a prompt, tokens behind a short and a long context, memory. Everyone runs in a process of its own, on the same weights.
 */
import { smallPublishedSizes } from "../../demo/published-decoder.js";
import { type PublishedShape, publishedShapes, qwen3 } from "../../demo/published-shapes.js";
import { promptOf } from "../device/sizes.js";
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
  const runtimes = modelRuntimes(setting);
  const files = once((): ShapeFiles =>
    folders.of(
      shape,
      runtimes.some(({ readsGguf }) => readsGguf),
    ),
  );
  const opened = (): OpenedModel => ({
    ...files(),
    layers: sizes.layers,
    keyValueHeads: sizes.keyValueHeads,
    headSize: sizes.headSize,
    context: lengths.long + lengths.tokens + 8,
    threads: setting.threads,
    gpu: setting.backend === "webgpu",
    backend: setting.backend,
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
    return {
      name: model.runtime.name,
      runtime: model.runtime.runtime,
      async start() {
        const decoder = await model.get();
        return {
          async run() {
            const took = await work();
            const { peak } = await decoder.memory();
            memory = { "MiB at most": peak / 2 ** 20, "of the file": peak / files().bytes };
            return took;
          },
          result: async (): Promise<Result> =>
            Int32Array.from(
              await decoder.next(Array.from({ length: asked }, (_, text) => promptOf(1000 + text, askedLength, sizes))),
            ),
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
            ...(model.runtime.runtime === "insitu" ? { "GB/s read": bytesRead(shape, context) / medianMs / 1e6 } : {}),
          }),
        ),
      ),
      repeats,
      check: tokensAgree,
    };
  };
  return [
    {
      name: `${name}: loading, ${sizeText(shape)}`,
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

/** What a token reads at least: every weight of the products once, in 4 bits with a float32 scale for each 32, and the caches' rows. */
function bytesRead({ sizes }: PublishedShape, context: number): number {
  const { layers, hidden, heads, keyValueHeads, headSize, intermediate, vocabulary } = sizes;
  const layer = hidden * headSize * 2 * (heads + keyValueHeads) + 3 * hidden * intermediate;
  const weights = layers * layer + hidden * vocabulary;
  return (weights / 32) * 20 + 2 * layers * keyValueHeads * headSize * context * 4;
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
    const [shapes, lengths] = setting.quick ? [smallShapes, smallLengths] : [publishedShapes, fullLengths];
    return shapes.flatMap((shape) => shapeGroups(shape, lengths, folders, setting));
  },
  found: () => findModelPeers(),
  async stop() {
    // Processes before the files that they read.
    const all = leaving.toReversed();
    leaving = [];
    for (const leave of all) await leave();
  },
};
