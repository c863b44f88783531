/** A model's folder, read and made ready: its tokenizer, how it talks, its session, and what makes texts with it. */
import { checkCount, checkName, optionsWithoutNull } from "../base/arguments.js";
import type { ModelVariant, ToolFormat } from "../base/known-names.js";
import type { FolderPlatform } from "../base/platform.js";
import { withPickedRows, withDrawnTokens } from "../decoder/model-changes.js";
import { loadChanges, type LongTexts, wholeModel } from "../decoder/whole-model.js";
import type { MakeGrammars } from "#insitu/choice/constraint.js";
import { compileAhead } from "../engine/compile-ahead.js";
import { type DecoderEngine, linearEngine, pagedEngine, type ReadingOptions } from "../engine/decoder-engine.js";
import { type CacheOptions, pagedSessionOptions, readCacheOptions } from "../engine/paged-decoder.js";
import { faultOf, withPath } from "../session/broken-file.js";
import { refuseMissingOperators } from "../session/missing-operators.js";
import type { SessionOptions } from "../session/options.js";
import type { Session } from "../session/session.js";
import type { HeadFile } from "#insitu/heads/draft-head.js";
import { InsituError } from "../base/error.js";
import { findHead } from "./find-model.js";
import { loadLanguageModelOptionNames } from "./load-option-names.js";
import { ModelDialogue } from "./model-dialogue.js";
import { type Json, madeFor, readModelFolder } from "./model-folder.js";
import { type ModelDefaults, modelDefaults } from "./options.js";
import { TextTokenizer } from "./tokenizer.js";

/** Options of `CausalLM.load`: those of a session and of the cache, and these. */
export interface LoadLanguageModelOptions extends SessionOptions, CacheOptions {
  /**
   * The context window: how many tokens the prompt and the generated text may have together.
   * @default the model's own context length, at most 4096
   */
  readonly context?: number | undefined;
  /**
   * How many prompt tokens are read in one run (chunked prefill).
   * @default 128, and 512 on a GPU
   */
  readonly chunk?: number | undefined;
  /**
   * How many tokens at the beginning stay when the context slides (attention sinks).
   * @default 4
   */
  readonly sinks?: number | undefined;
  /**
   * Which of the model's ONNX files to load: "q4" is onnx/model_q4.onnx. It can also be the name of a folder inside the model's folder.
   * @default the folder's only or main file; by hub name "q4", and "q4f16" on a GPU
   */
  readonly variant?: ModelVariant | undefined;
  /**
   * A chat template (Jinja) to use in place of the folder's own.
   * @default the folder's own
   */
  readonly chatTemplate?: string | undefined;
  /**
   * The model family that decides how tool calls and reasoning are written.
   * @default found by the chat template
   */
  readonly toolFormat?: ToolFormat | undefined;
  /**
   * The prefix cache: how many finished contexts are kept, so that prompts with the same beginning are not read again. 0 keeps none.
   * @default 1
   */
  readonly keep?: number | undefined;
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
  /** Opens the model's own head. Throws where its folder has none. */
  readonly openHead: () => Promise<{ readonly session: Session; readonly names: HeadFile }>;
}

/** The longest context that is taken without being asked for. */
const mostContext = 4096;

/** Reads a folder, or the folder around an ONNX file, and makes the model ready. `isForDevice`: it is known to run on one. */
export async function prepareModel(
  source: string,
  platform: FolderPlatform,
  openSession: (model: string, options: SessionOptions) => Promise<Session>,
  options: LoadLanguageModelOptions | undefined,
  makeGrammars: MakeGrammars,
  isForDevice = false,
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
  const texts = once(() => textsOf(folder, chatTemplate, toolFormat));
  let length = context ?? Math.min(madeFor(folder.config) ?? mostContext, mostContext);
  const apart = sessionOptions.batchInvariant === true;
  const own =
    paged === undefined
      ? { change: withDrawnTokens(withPickedRows(sessionOptions.change)) }
      : pagedSessionOptions(paged, apart);
  let longTexts: LongTexts | undefined;
  // What fails here fails where it is used.
  loadChanges().catch(() => undefined);
  const onFull = { makeRoom: () => false };
  const readingOf = (): ReadingOptions => ({ capacity: length, chunk, sinks, longTexts });
  const opening = openSession(folder.model, {
    rewrite: "auto",
    activations: "int8",
    ...sessionOptions,
    ...own,
    change: async (loaded, on) => {
      const whole = await wholeModel(loaded, folder, platform);
      refuseMissingOperators(whole.model, folder.model);
      ({ longTexts } = whole);
      length = whole.within(length, context, folder.model);
      // A device copies weights while the host has other work; elsewhere they wait until it is known that all else is right.
      if (!on.isDevice) await texts();
      else
        on.meanwhile?.(async (early, tell) => {
          // Reads of weights are begun before the host is busy with other work, and go on in between.
          await platform.breathe();
          if (paged === undefined) await compileAhead(early, readingOf(), tell);
          await platform.breathe();
          await texts();
        });
      return own.change(whole.model, on);
    },
  }).catch(async (error: unknown) => {
    // What no weights would mend is told before what is wrong with them.
    if (platform.kindOf !== undefined) throw await faultOf(error, folder.model, platform);
    throw error instanceof InsituError ? withPath(error, folder.model) : error;
  });
  // Threads take a while to start: texts are made ready meanwhile, and what is wrong with them is told where the session asks.
  if (!isForDevice) texts().catch(() => undefined);
  const session = await opening;
  try {
    const reading = readingOf();
    const model =
      paged === undefined ? linearEngine(session, reading) : pagedEngine(session, paged, reading, apart, onFull);
    return {
      ...(await texts()),
      session,
      model,
      config: folder.config,
      context: reading.capacity,
      keep,
      onFull,
      makeGrammars,
      async openHead() {
        const path = await findHead(folder.root, platform, variant, folder.head?.file);
        if (path === undefined)
          throw new InsituError(
            "invalid-model",
            `"${folder.root}" has no head, ${folder.head?.file ?? "mtp.onnx"}, that guesses for the model`,
          );
        const head = await openSession(path, {
          ...sessionOptions,
          rewrite: "auto",
          change: async (loaded) => (await wholeModel(loaded, { ...folder, model: path }, platform)).model,
        });
        return { session: head, names: folder.head ?? {} };
      },
    };
  } catch (error) {
    await session.release();
    throw error instanceof InsituError ? withPath(error, folder.model) : error;
  }
}

/** What a model's folder says of texts. */
async function textsOf(
  folder: Awaited<ReturnType<typeof readModelFolder>>,
  chatTemplate: string | undefined,
  toolFormat: ToolFormat | undefined,
): Promise<Pick<LanguageModelParts, "tokenizer" | "dialogue" | "defaults">> {
  const template = chatTemplate ?? folder.template;
  const tokenizer = await TextTokenizer.load({ ...folder, config: folder.tokenizerConfig, template });
  const dialogue = await ModelDialogue.of(tokenizer, toolFormat);
  const defaults = withEnds(
    modelDefaults(folder.config, folder.generationConfig, tokenizer.endToken, folder.generationFile),
    dialogue.endTokens,
  );
  return { tokenizer, dialogue, defaults };
}

/** Work that is done when it is first asked for, and not again. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => (done ??= work());
}

const withEnds = (defaults: ModelDefaults, ends: readonly number[]): ModelDefaults => ({
  ...defaults,
  endTokens: [...new Set([...defaults.endTokens, ...ends])],
});
