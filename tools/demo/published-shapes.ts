/** Decoders that are published, by the sizes that their public configurations name: what real models weigh, without their weights. */
import type { PublishedForm, PublishedSizes } from "./published-decoder.js";

/** A published decoder's shape. */
export interface PublishedShape {
  readonly name: string;
  /** `model_type` of its configuration. */
  readonly modelType: "llama" | "qwen3" | "gpt_oss";
  readonly sizes: PublishedSizes;
  /** What its files look like where they have weights of 4 bits for processors. */
  readonly form: PublishedForm;
  /** True if it is so large that it is run by its name alone. */
  readonly isLarge?: boolean;
}

/**
 * All three have one matrix for embedding and head; files on the hub have it twice, in float32 for the embedding and in 4 bits for the head.
 * The builder's files for processors let activations be rounded to 8 bits.
 */
const form: PublishedForm = {
  type: "float32",
  weights: { bits: 4, blockSize: 32, accuracyLevel: 4 },
  embeddings: "unpacked",
};

/** SmolLM2-135M. */
const smolLm2: PublishedShape = {
  name: "SmolLM2-135M",
  modelType: "llama",
  sizes: {
    layers: 30,
    hidden: 576,
    heads: 9,
    keyValueHeads: 3,
    headSize: 64,
    intermediate: 1536,
    vocabulary: 49_152,
    positions: 8192,
    ropeTheta: 1e5,
    epsilon: 1e-5,
    seed: 1,
  },
  form: { ...form, headNorms: "none" },
};

/** Qwen3-0.6B. */
export const qwen3: PublishedShape = {
  name: "Qwen3-0.6B",
  modelType: "qwen3",
  sizes: {
    layers: 28,
    hidden: 1024,
    heads: 16,
    keyValueHeads: 8,
    headSize: 128,
    intermediate: 3072,
    vocabulary: 151_936,
    positions: 40_960,
    ropeTheta: 1e6,
    seed: 1,
  },
  form,
};

/** Llama-3.2-1B. */
const llama32: PublishedShape = {
  name: "Llama-3.2-1B",
  modelType: "llama",
  sizes: {
    layers: 16,
    hidden: 2048,
    heads: 32,
    keyValueHeads: 8,
    headSize: 64,
    intermediate: 8192,
    vocabulary: 128_256,
    positions: 131_072,
    ropeTheta: 5e5,
    ropeScaling: { factor: 32, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 8192 },
    epsilon: 1e-5,
    seed: 1,
  },
  form: { ...form, headNorms: "none" },
};

/** Qwen3-4B. */
export const qwen3Large: PublishedShape = {
  name: "Qwen3-4B",
  modelType: "qwen3",
  sizes: { ...qwen3.sizes, layers: 36, hidden: 2560, heads: 32, intermediate: 9728 },
  form,
  isLarge: true,
};

/** gpt-oss-20b: its experts in blocks of 4 bits with scales that are powers of two, as MXFP4 has them. */
export const gptOss: PublishedShape = {
  name: "gpt-oss-20b",
  modelType: "gpt_oss",
  sizes: {
    layers: 24,
    hidden: 2880,
    heads: 64,
    keyValueHeads: 8,
    headSize: 64,
    intermediate: 2880,
    vocabulary: 201_088,
    positions: 131_072,
    ropeTheta: 150_000,
    ropeScaling: { kind: "yarn", factor: 32, fast: 32, slow: 1, originalPositions: 4096 },
    epsilon: 1e-5,
    seed: 1,
    experts: { count: 32, chosen: 4, limit: 7 },
    window: 128,
  },
  form: { ...form, embeddings: "separate", projections: "packed", headNorms: "none", biasesAndSinks: true },
  isLarge: true,
};

/** The shapes, smallest first. */
export const publishedShapes: readonly PublishedShape[] = [smolLm2, qwen3, llama32, qwen3Large, gptOss];
