/**
 * A large vocabulary, put into a model of tokens where that makes none of it itself: the package makes a list of all entries first, which takes three times
 * as long and tens of megabytes.
 */
import { isObject } from "./shape-rules.js";
import type { TokenizerParts } from "./token-pipeline.js";

type Vocabulary = Readonly<Record<string, number>>;

/** The vocabulary that is to be filled in, with the model's description without it; undefined where the package makes it. */
export function heldBack(model: unknown): { readonly model: object; readonly vocabulary: Vocabulary } | undefined {
  if (!isObject(model) || model["type"] !== "BPE" || !isObject(model["vocab"])) return undefined;
  const vocabulary = model["vocab"] as Vocabulary;
  const unknown = model["unk_token"];
  // The number of what stands for unknown words is asked for when the model is made.
  const first =
    typeof unknown === "string" && Object.hasOwn(vocabulary, unknown) ? { [unknown]: vocabulary[unknown] } : {};
  return { model: { ...model, vocab: first }, vocabulary };
}

/** Puts a vocabulary into a model that was made without it. */
export function fillVocabulary(
  { tokens_to_ids: ids, vocab: spellings }: TokenizerParts["model"],
  all: Vocabulary,
): void {
  const keys = Object.keys(all);
  ids.clear();
  spellings.length = keys.length;
  for (const key of keys) {
    const id = all[key];
    ids.set(key, id);
    spellings[id] = key;
  }
}
