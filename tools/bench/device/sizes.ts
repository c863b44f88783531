/** How large everything is that a device is measured with. */
import { type PublishedSizes, smallPublishedSizes } from "../../demo/published-decoder.js";
import { qwen3 } from "../../demo/published-shapes.js";

/** A decoder, and what is done with it. */
export interface DeviceSizes {
  readonly model: PublishedSizes;
  /** The type of activations and caches, and of weights that are not in blocks. */
  readonly type: "float16" | "float32";
  /** Tokens before those that are timed. */
  readonly contexts: readonly [short: number, long: number];
  /** Tokens that one run makes and times. */
  readonly tokens: number;
  /** Tokens of the prompt that is read. */
  readonly prompt: number;
  /** Tokens of a prompt that is read where memory allows it. */
  readonly longPrompt: number;
  /** Several texts at once: how many, the context of each, the steps of one run, and the tokens of each text where prompts count too. */
  readonly batch: {
    readonly texts: number;
    readonly context: number;
    readonly steps: number;
    readonly tokens: number;
  };
  /** Caches that are written, and the rows that each has room for. */
  readonly writes: { readonly caches: number; readonly rows: number };
  /** Attention alone: samples, valid rows of each, and the layers by which a longer chain is longer. */
  readonly attention: { readonly samples: number; readonly rows: number; readonly layers: number };
  /** Bytes of one of the two buffers that the copy speed is measured with. */
  readonly copyBytes: number;
  /** How long a GPU that rested takes until its clocks are up. */
  readonly wakeMilliseconds: number;
}

/** Qwen3-0.6B. */
export const fullSizes: DeviceSizes = {
  model: qwen3.sizes,
  type: "float16",
  contexts: [128, 4096],
  tokens: 64,
  prompt: 4096,
  longPrompt: 32_768,
  batch: { texts: 32, context: 1024, steps: 32, tokens: 128 },
  writes: { caches: 128, rows: 4096 },
  attention: { samples: 32, rows: 8192, layers: 4 },
  copyBytes: 2 ** 30,
  wakeMilliseconds: 1500,
};

/** For a program that plays a GPU, shows that everything works. float32: peers do without the device's float16 in nothing else. */
export const smallSizes: DeviceSizes = {
  model: smallPublishedSizes,
  type: "float32",
  contexts: [8, 40],
  tokens: 4,
  prompt: 24,
  longPrompt: 96,
  batch: { texts: 3, context: 8, steps: 3, tokens: 4 },
  writes: { caches: 4, rows: 16 },
  attention: { samples: 2, rows: 48, layers: 2 },
  copyBytes: 2 ** 16,
  wakeMilliseconds: 0,
};

/** The rows that the longest text takes, and some more. */
export const longestText = ({ contexts, tokens, prompt, batch }: DeviceSizes): number =>
  Math.max(contexts[1] + tokens, prompt, batch.context + batch.steps, batch.context + batch.tokens) + 8;

/** The rows that a text of a batch takes, and some more. */
export const batchText = ({ batch }: DeviceSizes): number => batch.context + Math.max(batch.steps, batch.tokens) + 8;

/** Rows in a block of pages. */
export const blockSize = 16;

/** Blocks that all texts of a batch take beside the longest text. */
export const poolBlocks = (sizes: DeviceSizes): number => {
  const { texts, context, steps, tokens } = sizes.batch;
  return (
    texts * (Math.ceil((context + Math.max(steps, tokens)) / blockSize) + 1) + Math.ceil(longestText(sizes) / blockSize)
  );
};

/** `28 layers of 1024, vocabulary 151,936` */
export const modelText = ({ layers, hidden, vocabulary }: PublishedSizes): string =>
  `${layers} layers of ${hidden}, vocabulary ${vocabulary.toLocaleString("en-US")}`;

/** Tokens of a text of its own for each `text`: no two begin alike. */
export const promptOf = (text: number, length: number, { vocabulary }: PublishedSizes): number[] =>
  Array.from({ length }, (_, at) => ((text + 1) * 7919 + at * 104_729 + 11) % vocabulary);
