/** A model's folder, read and made ready: its tokenizer, how it talks, its session, and what makes texts with it. */
import { checkCount, checkName, optionsWithoutNull } from "../base/arguments.js";
import type { FolderPlatform } from "../base/platform.js";
import { withPickedRows, withDrawnTokens } from "../decoder/model-changes.js";
import { wholeModel } from "../decoder/whole-model.js";
import type { MakeGrammars } from "../engine/constraint.js";
import { type DecoderEngine, linearEngine, pagedEngine } from "../engine/decoder-engine.js";
import { type CacheOptions, pagedSessionOptions, readCacheOptions } from "../engine/paged-decoder.js";
import { shortLength } from "../engine/prompt-parts.js";
import { refuseMissingOperators } from "../session/missing-operators.js";
import type { SessionOptions } from "../session/options.js";
import type { Session } from "../session/session.js";
import { loadLanguageModelOptionNames } from "./load-option-names.js";
import { ModelDialogue } from "./model-dialogue.js";
import { type Json, madeFor, readModelFolder } from "./model-folder.js";
import { type ModelDefaults, modelDefaults } from "./options.js";
import { TextTokenizer } from "./tokenizer.js";

/** How a language model is loaded: a session's options, and these. */
export interface LoadLanguageModelOptions extends SessionOptions, CacheOptions {
  /** Tokens that prompt and text may take together; what the model was made for, at most 4096, where left out. */
  readonly context?: number;
  /** Prompt tokens that are read in one run: 128 where left out, and 512 on a GPU. */
  readonly chunk?: number;
  /** Tokens at the beginning that stay when a context slides. */
  readonly sinks?: number;
  /** Which of the folder's ONNX files: "q4" is onnx/model_q4.onnx; or which folder in it, by its name. */
  readonly variant?: string;
  /** The chat template to use in place of the folder's own. */
  readonly chatTemplate?: string;
  /**
   * The family whose way of writing tool calls and reasoning the model has: "hermes", "qwen-coder", "llama3", "mistral", "gemma", "function-gemma",
   * "phi4", "deepseek", "glm", "lfm2", "harmony" or "granite". Found by the chat template where left out.
   */
  readonly toolFormat?: string;
  /** Contexts that are kept to be reused by prompts that begin alike; 0 keeps none. */
  readonly keep?: number;
}

/** Everything a language model is made of. */
export interface LanguageModelParts {
  readonly session: Session;
  readonly model: DecoderEngine;
  readonly tokenizer: TextTokenizer;
  readonly dialogue: ModelDialogue;
  readonly config: Json;
  readonly defaults: ModelDefaults;
  readonly context: number;
  readonly keep: number;
  /** Asked when pages are full: contexts that wait give way. */
  readonly onFull: { makeRoom: () => boolean };
  readonly makeGrammars: MakeGrammars;
}

/** The longest context that is taken without being asked for. */
const mostContext = 4096;

/** Reads a folder, or the folder around an ONNX file, and makes the model ready. */
export async function prepareModel(
  source: string,
  platform: FolderPlatform,
  openSession: (model: string, options: SessionOptions) => Promise<Session>,
  options: LoadLanguageModelOptions | undefined,
  makeGrammars: MakeGrammars,
): Promise<LanguageModelParts> {
  const given = optionsWithoutNull("the options of CausalLM.load", options, loadLanguageModelOptionNames);
  const { context, chunk, sinks = 4, variant, keep = 1, chatTemplate, toolFormat, ...others } = given;
  const { cache, cacheType, blockSize, blocks, ...sessionOptions } = others;
  const paged = readCacheOptions({ cache, cacheType, blockSize, blocks });
  checkCount("option context", context, 2);
  checkCount("option chunk", chunk, 1);
  checkCount("option sinks", sinks, 0);
  checkCount("option keep", keep, 0);
  checkName("option variant", variant);
  checkName("option chatTemplate", chatTemplate);
  checkName("option toolFormat", toolFormat);
  const folder = await readModelFolder(source, platform, variant);
  if (platform.kindOf !== undefined) await refuseMissingOperators(folder.model, platform);
  const template = chatTemplate ?? folder.template;
  const tokenizer = await TextTokenizer.load({ ...folder, config: folder.tokenizerConfig, template });
  const dialogue = new ModelDialogue(tokenizer, toolFormat);
  const defaults = withEnds(
    modelDefaults(folder.config, folder.generationConfig, tokenizer.endToken, folder.generationFile),
    dialogue.endTokens,
  );
  let length = context ?? Math.min(madeFor(folder.config) ?? mostContext, mostContext);
  const apart = sessionOptions.batchInvariant === true;
  const own =
    paged === undefined
      ? { change: withDrawnTokens(withPickedRows(sessionOptions.change)) }
      : pagedSessionOptions(paged, apart);
  let longFrom: number | undefined;
  const session = await openSession(folder.model, {
    rewrite: "auto",
    ...sessionOptions,
    ...own,
    change: async (loaded, on) => {
      const whole = await wholeModel(loaded, folder, platform);
      ({ longFrom } = whole);
      length = whole.within(length, context, folder.model);
      return own.change(whole.model, on);
    },
  });
  const onFull = { makeRoom: () => false };
  let model: DecoderEngine;
  try {
    if (paged !== undefined) length = shortLength(length, context, longFrom);
    const reading = { capacity: length, chunk, sinks, longFrom };
    model = paged === undefined ? linearEngine(session, reading) : pagedEngine(session, paged, reading, apart, onFull);
  } catch (error) {
    await session.release();
    throw error;
  }
  return {
    session,
    model,
    tokenizer,
    dialogue,
    config: folder.config,
    defaults,
    context: length,
    keep,
    onFull,
    makeGrammars,
  };
}

const withEnds = (defaults: ModelDefaults, ends: readonly number[]): ModelDefaults => ({
  ...defaults,
  endTokens: [...new Set([...defaults.endTokens, ...ends])],
});
