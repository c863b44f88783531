/** Rows of hidden states → one vector a text: as sentence-transformers' configuration says, or as such models usually do. Runs no model. */
import { InsituError } from "#insitu/base/error.js";
import type { Json } from "#insitu/generate/model-folder.js";

/** How the vectors of a text's tokens become one vector: their mean, their maximum, the first token's, or the last token's. */
export type Pooling = "mean" | "cls" | "last" | "max";

/** All of them. */
export const poolings: readonly Pooling[] = ["mean", "cls", "last", "max"];

/** What the folder of a model says of its embeddings. */
export interface SentenceConfig {
  readonly pooling: Pooling;
  /** True if vectors are brought to the length 1. */
  readonly normalize: boolean;
  /** What stands before texts, by the names that the model has for it. */
  readonly prompts: Readonly<Record<string, string>>;
  readonly defaultPrompt: string | undefined;
}

/** True if one of the architectures that config.json names has this in its name. */
export function isOf({ architectures }: Json, part: string): boolean {
  const named: readonly unknown[] = Array.isArray(architectures) ? architectures : [architectures];
  return named.some((name) => typeof name === "string" && name.includes(part));
}

/** Keys of 1_Pooling/config.json. */
const modes: Readonly<Record<string, Pooling>> = {
  pooling_mode_mean_tokens: "mean",
  pooling_mode_cls_token: "cls",
  pooling_mode_lasttoken: "last",
  pooling_mode_max_tokens: "max",
};

/** Reads 1_Pooling/config.json, modules.json and config_sentence_transformers.json; where there are none, decoders end with their last token. */
export function sentenceConfig(
  config: Json,
  {
    pooling,
    modules,
    sentence,
  }: { readonly pooling?: Json | undefined; readonly modules?: unknown; readonly sentence?: Json | undefined },
): SentenceConfig {
  const named = Object.entries(pooling ?? {}).flatMap(([key, isOn]) =>
    isOn === true && key.startsWith("pooling_mode_") ? [key] : [],
  );
  const unknown = named.find((key) => !Object.hasOwn(modes, key));
  if (unknown !== undefined || named.length > 1)
    throw new InsituError(
      "invalid-model",
      `1_Pooling/config.json: ${named.join(", ")}: one of ${Object.keys(modes).join(", ")} is taken; give option pooling`,
    );
  const types = Array.isArray(modules)
    ? (modules as readonly { readonly type?: string }[]).map(({ type = "" }) => type)
    : [];
  const prompts = sentence?.["prompts"];
  const known = typeof prompts === "object" && prompts !== null ? (prompts as Readonly<Record<string, string>>) : {};
  const usual = sentence?.["default_prompt_name"];
  const isDecoder = isOf(config, "ForCausalLM");
  return {
    pooling: named.length === 1 ? modes[named[0]] : isDecoder ? "last" : "mean",
    // A folder that says nothing of it: vectors are compared by their angle, which does not change.
    normalize: types.length === 0 || types.some((type) => type.endsWith(".Normalize")),
    prompts: known,
    defaultPrompt: typeof usual === "string" ? known[usual] : undefined,
  };
}

/** The vector of a text of `length` tokens, whose rows begin at `start`. */
export function pooled(
  rows: Float32Array,
  start: number,
  length: number,
  size: number,
  pooling: Pooling,
): Float32Array {
  const row = (at: number): Float32Array => rows.slice(start + at * size, start + (at + 1) * size);
  if (pooling === "cls") return row(0);
  if (pooling === "last") return row(length - 1);
  const sums = new Float64Array(size).fill(pooling === "max" ? -Infinity : 0);
  for (let at = 0; at < length; at++)
    for (let place = 0; place < size; place++) {
      const element = rows[start + at * size + place];
      sums[place] = pooling === "max" ? Math.max(sums[place], element) : sums[place] + element;
    }
  return Float32Array.from(sums, (sum) => (pooling === "max" ? sum : sum / length));
}

/** The first numbers of a vector, as Matryoshka embeddings are cut, brought to the length 1 where that is wanted. */
export function finished(vector: Float32Array, dimensions: number | undefined, normalize: boolean): Float32Array {
  const cut = dimensions === undefined ? vector : vector.slice(0, dimensions);
  if (!normalize) return cut;
  const length = Math.sqrt(cut.reduce((sum, each) => sum + each * each, 0));
  return length === 0 ? cut : cut.map((each) => each / length);
}

/** The cosine of the angle between two vectors. */
export function cosine(a: Float32Array, b: Float32Array): number {
  let [dot, left, right] = [0, 0, 0];
  for (let at = 0; at < a.length; at++) {
    dot += a[at] * b[at];
    left += a[at] * a[at];
    right += b[at] * b[at];
  }
  return left === 0 || right === 0 ? 0 : dot / Math.sqrt(left * right);
}
