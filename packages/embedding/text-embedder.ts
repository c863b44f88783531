/**
 * Embeddings and ranking: a model that makes vectors of texts, or scores of pairs of them. Encoders in the hub's layout, and decoders that hand out
 * their last hidden state, run here without caches, several texts a run. `entry/` gives it a `load` that opens files.
 */
import {
  checkChoice,
  checkCount,
  checkFlag,
  checkName,
  checkSignal,
  optionsWithoutNull,
} from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { ModelVariant } from "#insitu/base/known-names.js";
import type { OptionNames } from "#insitu/base/option-names.js";
import type { FolderPlatform } from "#insitu/base/platform.js";
import { valueText } from "#insitu/base/value-text.js";
import { type SessionOptions, sessionOptionNames } from "#insitu/session/options.js";
import type { Session } from "#insitu/session/session.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { type Json, madeFor, readJsonFile, readModelFolder } from "#insitu/generate/model-folder.js";
import {
  cosine,
  finished,
  isOf,
  type Pooling,
  pooled,
  poolings,
  type SentenceConfig,
  sentenceConfig,
} from "./pooling.js";
import { type FramedTokens, TokenFrame } from "./token-frame.js";
import { TextTokenizer } from "#insitu/generate/tokenizer.js";

/** Options of `EmbeddingModel.load`: those of a session, and these. */
export interface LoadEmbeddingOptions extends SessionOptions {
  /**
   * Which of the model's ONNX files to load: "q8" is onnx/model_quantized.onnx.
   * @default the folder's only or main file; by hub name "q4", and "q4f16" on a GPU
   */
  readonly variant?: ModelVariant | undefined;
  /**
   * How the vectors of a text's tokens become one vector.
   * @default what 1_Pooling/config.json says
   */
  readonly pooling?: Pooling | undefined;
  /**
   * The most tokens of a text; longer texts are cut.
   * @default the model's own, else 512
   */
  readonly maxTokens?: number | undefined;
}

/** Their names. */
export const loadEmbeddingOptionNames: OptionNames<LoadEmbeddingOptions> = {
  ...sessionOptionNames,
  variant: true,
  pooling: true,
  maxTokens: true,
};

/** Options of `embed` and `rank`. */
export interface EmbedOptions {
  /** Text to put in front of each text: the name of one of the model's prompts, such as "query", or the text itself. */
  readonly prompt?: string | undefined;
  /**
   * Keeps only the first numbers of each vector, for models trained for it (Matryoshka embeddings).
   * @default all
   */
  readonly dimensions?: number | undefined;
  /**
   * True scales vectors to length 1, false leaves them as they are.
   * @default what modules.json says
   */
  readonly normalize?: boolean | undefined;
  /** Cancels the work: it throws the signal's reason before the next batch. */
  readonly signal?: AbortSignal | undefined;
}

const embedOptionNames: OptionNames<EmbedOptions> = { prompt: true, dimensions: true, normalize: true, signal: true };

/** One document of a ranking: which it is, and how well it matches the query. */
export interface RankedDocument {
  /** The document's index in the list that was given. */
  readonly index: number;
  /** Higher is better: the cosine similarity of the embeddings, or the score of a cross encoder, from 0 to 1. */
  readonly score: number;
}

/** Texts and tokens of one run at most. */
const atOnce = { texts: 32, tokens: 8192 } as const;

/** Tokens of a text where the model does not say. */
const usualTokens = 512;

interface EmbedderParts {
  readonly session: Session;
  readonly tokenizer: TextTokenizer;
  readonly frame: TokenFrame;
  readonly config: Json;
  readonly sentence: SentenceConfig;
  readonly maxTokens: number;
  /** The output that is read, and what it holds. */
  readonly output: { readonly name: string; readonly kind: "rows" | "vector" | "scores" };
}

/** A model that makes embeddings. */
export class TextEmbedder {
  readonly #parts: EmbedderParts;

  protected constructor(parts: EmbedderParts) {
    this.#parts = parts;
  }

  /** Reads a folder, or the folder around an ONNX file, and makes the model ready. */
  protected static async prepare(
    source: string,
    platform: FolderPlatform,
    openSession: (model: string, options: SessionOptions) => Promise<Session>,
    options?: LoadEmbeddingOptions,
  ): Promise<EmbedderParts> {
    const given = optionsWithoutNull("the options of EmbeddingModel.load", options, loadEmbeddingOptionNames);
    const { variant, pooling, maxTokens, ...sessionOptions } = given;
    checkName("option variant", variant);
    checkChoice("option pooling", pooling, poolings);
    checkCount("option maxTokens", maxTokens, 1);
    const folder = await readModelFolder(source, platform, variant);
    const json = (name: string): Promise<unknown> => readJsonFile(`${folder.root}/${name}`, platform);
    const own = sentenceConfig(folder.config, {
      pooling: (await json("1_Pooling/config.json")) as Json | undefined,
      modules: await json("modules.json"),
      sentence: (await json("config_sentence_transformers.json")) as Json | undefined,
    });
    const limits = (await json("sentence_bert_config.json")) as Json | undefined;
    const most =
      maxTokens ?? (limits?.["max_seq_length"] as number | undefined) ?? madeFor(folder.config) ?? usualTokens;
    const session = await openSession(folder.model, sessionOptions);
    try {
      return {
        session,
        tokenizer: await TextTokenizer.load({ ...folder, config: folder.tokenizerConfig }),
        frame: new TokenFrame(folder.tokenizer),
        config: folder.config,
        sentence: { ...own, pooling: pooling ?? own.pooling },
        maxTokens: most,
        output: outputOf(session, folder.config),
      };
    } catch (error) {
      await session.release();
      throw error;
    }
  }

  /** The session that runs the model. */
  get session(): Session {
    return this.#parts.session;
  }

  /** The contents of the model's config.json. */
  get config(): Json {
    return this.#parts.config;
  }

  /** How the vectors of a text's tokens become one vector. */
  get pooling(): Pooling {
    return this.#parts.sentence.pooling;
  }

  /** True for a cross encoder (reranker): it scores pairs of texts, and has no embeddings. */
  get isCrossEncoder(): boolean {
    return this.#parts.output.kind === "scores";
  }

  /** The prompts that the model was trained with, by name: text to put in front, such as "query: ". */
  get prompts(): Readonly<Record<string, string>> {
    return this.#parts.sentence.prompts;
  }

  /** The most tokens of a text that are read. */
  get maxTokens(): number {
    return this.#parts.maxTokens;
  }

  /**
   * Computes the embedding of each text: one vector per text, in order.
   * @throws InsituError `invalid-argument` for a cross encoder, which has no embeddings, and for invalid options.
   * @example
   * ```ts
   * import { EmbeddingModel } from "insitu";
   *
   * const model = await EmbeddingModel.load("Xenova/all-MiniLM-L6-v2", { variant: "q8" });
   * const [cat, dog] = await model.embed(["a cat", "a dog"]);
   * console.log(cat.length, dog.length);
   * await model.release();
   * ```
   */
  async embed(texts: string | readonly string[], options?: EmbedOptions): Promise<Float32Array[]> {
    return (await this.embedCounted(texts, options)).vectors;
  }

  /** For servers: the same, and how many tokens were read. */
  async embedCounted(
    texts: string | readonly string[],
    options?: EmbedOptions,
  ): Promise<{ readonly vectors: Float32Array[]; readonly tokens: number }> {
    const given = optionsWithoutNull("the options of embed", options, embedOptionNames);
    const { dimensions, signal, normalize = this.#parts.sentence.normalize } = given;
    checkCount("option dimensions", dimensions, 1);
    checkFlag("option normalize", normalize);
    checkSignal(signal);
    if (this.isCrossEncoder)
      throw new InsituError("invalid-argument", "the model is a cross encoder, which has no embeddings: use rank");
    const { frame, maxTokens } = this.#parts;
    const before = this.#prompt(given.prompt);
    const framed = listOf(texts).map((text) => frame.single(this.#tokens(before + text), maxTokens));
    const vectors = await this.#run(framed, signal);
    const [size] = vectors.map(({ length }) => length);
    if (dimensions !== undefined && size !== undefined && dimensions > size)
      throw new InsituError(
        "invalid-argument",
        `option dimensions must be at most ${size}, the size of the model's vectors, got ${dimensions}`,
      );
    return {
      vectors: vectors.map((vector) => finished(vector, dimensions, normalize)),
      tokens: framed.reduce((sum, { tokens }) => sum + tokens.length, 0),
    };
  }

  /**
   * Ranks documents for a query, best first: by the scores of a cross encoder, or by the similarity of embeddings.
   * @throws InsituError `invalid-argument` for invalid options.
   */
  async rank(query: string, documents: readonly string[], options?: EmbedOptions): Promise<RankedDocument[]> {
    const given = optionsWithoutNull("the options of rank", options, embedOptionNames);
    const scores = this.isCrossEncoder
      ? await this.#scores(query, documents, given.signal)
      : await this.#angles(query, documents, given);
    return scores.map((score, index) => ({ index, score })).toSorted((a, b) => b.score - a.score || a.index - b.index);
  }

  /** Frees the model's memory. The model cannot be used afterwards. */
  release(): Promise<void> {
    return this.#parts.session.release();
  }

  async #scores(query: string, documents: readonly string[], signal: AbortSignal | undefined): Promise<number[]> {
    const { frame, maxTokens } = this.#parts;
    const asked = this.#tokens(query);
    const pairs = listOf(documents).map((text) => frame.pair(asked, this.#tokens(text), maxTokens));
    // One score is that of fitting; of several the last.
    return (await this.#run(pairs, signal)).map((logits) => 1 / (1 + Math.exp(-logits.at(-1)!)));
  }

  async #angles(query: string, documents: readonly string[], options: EmbedOptions): Promise<number[]> {
    const { query: asking, document = this.prompts["passage"] } = this.prompts;
    const withPrompt = (prompt: string | undefined): EmbedOptions =>
      prompt === undefined ? options : { ...options, prompt };
    const [of] = await this.embed([query], options.prompt === undefined ? withPrompt(asking) : options);
    const vectors = await this.embed(documents, {
      ...withPrompt(document),
      ...(document === undefined ? { prompt: "" } : {}),
    });
    return vectors.map((vector) => cosine(of, vector));
  }

  #prompt(given: string | undefined): string {
    const { prompts, defaultPrompt = "" } = this.#parts.sentence;
    if (given === undefined) return defaultPrompt;
    if (typeof given !== "string")
      throw new InsituError("invalid-argument", `option prompt must be text, got ${valueText(given)}`);
    return Object.hasOwn(prompts, given) ? prompts[given] : given;
  }

  #tokens(text: string): readonly number[] {
    return this.#parts.tokenizer.encode(text, { specialTokens: false, controlTokens: "plain" });
  }

  /** What the model says of each: those of like length together, since a run is as long as its longest text. */
  async #run(framed: readonly FramedTokens[], signal: AbortSignal | undefined): Promise<Float32Array[]> {
    const order = [...framed.keys()].sort((a, b) => framed[a].tokens.length - framed[b].tokens.length);
    const made: Float32Array[] = [];
    for (let from = 0; from < order.length;) {
      signal?.throwIfAborted();
      let to = from + 1;
      while (
        to < order.length &&
        to - from < atOnce.texts &&
        framed[order[to]].tokens.length * (to + 1 - from) <= atOnce.tokens
      )
        to++;
      const batch = order.slice(from, to);
      const vectors = await this.#batch(batch.map((at) => framed[at]));
      batch.forEach((at, place) => (made[at] = vectors[place]));
      from = to;
    }
    return made;
  }

  async #batch(batch: readonly FramedTokens[]): Promise<Float32Array[]> {
    const { session, output, sentence, config } = this.#parts;
    const longest = Math.max(1, ...batch.map(({ tokens }) => tokens.length));
    const feeds = Object.fromEntries(
      session.inputMetadata.map((input) => [input.name, feedOf(input, batch, longest, config)]),
    );
    const { [output.name]: told } = await session.run(feeds, [output.name]);
    const data = Float32Array.from(told.data as ArrayLike<number>);
    const size = told.dims.at(-1)!;
    if (output.kind !== "rows") return batch.map((_, at) => data.slice(at * size, (at + 1) * size));
    return batch.map(({ tokens }, at) => pooled(data, at * longest * size, tokens.length, size, sentence.pooling));
  }
}

function listOf(texts: string | readonly string[]): readonly string[] {
  const list = typeof texts === "string" ? [texts] : texts;
  const wrong: unknown = Array.isArray(list) ? list.find((text) => typeof text !== "string") : texts;
  if (wrong !== undefined)
    throw new InsituError("invalid-argument", `only texts are embedded, got ${valueText(wrong)}`);
  return list;
}

/** What is read of a model: a vector that it makes itself, rows of hidden states, or scores of classes. */
function outputOf({ outputNames }: Session, config: Json): EmbedderParts["output"] {
  const vector = ["sentence_embedding", "text_embeds"].find((name) => outputNames.includes(name));
  if (vector !== undefined) return { name: vector, kind: "vector" };
  const isScoring = isOf(config, "ForSequenceClassification");
  if (isScoring && outputNames.includes("logits")) return { name: "logits", kind: "scores" };
  const rows = ["last_hidden_state", "token_embeddings", "hidden_states"].find((name) => outputNames.includes(name));
  if (rows !== undefined) return { name: rows, kind: "rows" };
  throw new InsituError(
    "invalid-model",
    `the model outputs ${outputNames.join(", ")}: an embedding model has last_hidden_state, token_embeddings or sentence_embedding`,
  );
}

/** What an input is given: tokens, their mask, kinds and places; pasts are empty. */
function feedOf(
  { name, type, shape }: Session["inputMetadata"][number],
  batch: readonly FramedTokens[],
  longest: number,
  config: Json,
): Tensor {
  if (name.startsWith("past"))
    return new Tensor(
      type,
      [] as never,
      shape.map((size, at) => (typeof size === "number" ? size : at === 0 ? batch.length : 0)),
    );
  const padding = typeof config["pad_token_id"] === "number" ? config["pad_token_id"] : 0;
  const each: Readonly<Record<string, (of: FramedTokens, at: number) => number>> = {
    input_ids: ({ tokens }, at) => tokens[at] ?? padding,
    attention_mask: ({ tokens }, at) => (at < tokens.length ? 1 : 0),
    token_type_ids: ({ types }, at) => types[at] ?? 0,
    position_ids: (_, at) => at,
  };
  const fill = each[name];
  if (fill === undefined)
    throw new InsituError("invalid-model", `the model has an input "${name}", which insitu cannot feed`);
  const numbers = batch.flatMap((of) => Array.from({ length: longest }, (_, at) => fill(of, at)));
  const dims = [batch.length, longest];
  return type === "int64"
    ? new Tensor("int64", BigInt64Array.from(numbers, BigInt), dims)
    : new Tensor(type, numbers as never, dims);
}
