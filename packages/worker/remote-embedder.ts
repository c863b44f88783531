/** An embedding model that a thread runs, as the page sees it: `EmbeddingModel`'s names. */
import { checkSignal } from "#insitu/base/arguments.js";
import type { EmbedOptions, LoadEmbeddingOptions, RankedDocument } from "#insitu/embedding/text-embedder.js";
import { splitOptions } from "./crossing.js";
import { Link, type StartThread } from "./link.js";
import type { EmbedderFacts } from "./messages.js";

/** An embedding model or a reranker in a thread of its own. */
export class RemoteEmbedder {
  readonly #link: Link;
  readonly #facts: EmbedderFacts;

  protected constructor({ link, facts }: { readonly link: Link; readonly facts: EmbedderFacts }) {
    this.#link = link;
    this.#facts = facts;
  }

  /** Starts a thread and loads the model there; the thread ends where that fails. */
  protected static async prepare(
    start: StartThread,
    source: string | URL,
    options: LoadEmbeddingOptions | undefined,
    base: string | undefined,
  ): Promise<{ readonly link: Link; readonly facts: EmbedderFacts }> {
    const split = splitOptions("the options of EmbeddingModel.load", options);
    const link = new Link(start);
    try {
      if (base !== undefined) link.send({ kind: "base", url: base });
      const given = { source: source instanceof URL ? source.href : source, options: split.options };
      return { link, facts: await link.ask("loadEmbedder", given, { listeners: split.listeners }) };
    } catch (error) {
      link.end();
      throw error;
    }
  }

  /** The backend that runs it. */
  get backend(): string {
    return this.#facts.backend;
  }

  /** The contents of the model's config.json. */
  get config(): Readonly<Record<string, unknown>> {
    return this.#facts.config;
  }

  /** How the vectors of a text's tokens become one vector. */
  get pooling(): EmbedderFacts["pooling"] {
    return this.#facts.pooling;
  }

  /** True for a cross encoder (reranker): it scores pairs of texts, and has no embeddings. */
  get isCrossEncoder(): boolean {
    return this.#facts.isCrossEncoder;
  }

  /** The prompts that the model was trained with, by name. */
  get prompts(): Readonly<Record<string, string>> {
    return this.#facts.prompts;
  }

  /** The most tokens of a text that are read. */
  get maxTokens(): number {
    return this.#facts.maxTokens;
  }

  /**
   * Computes the embedding of each text: one vector per text, in order.
   * @throws InsituError `invalid-argument` for a cross encoder, which has no embeddings, and for invalid options.
   */
  embed(texts: string | readonly string[], options?: EmbedOptions): Promise<Float32Array[]> {
    const { plain, signal } = embedOptions("embed", options);
    return this.#link.ask("embed", { texts, options: plain }, { signal });
  }

  /** Ranks documents by how well they match a query, best first. */
  rank(query: string, documents: readonly string[], options?: EmbedOptions): Promise<RankedDocument[]> {
    const { plain, signal } = embedOptions("rank", options);
    return this.#link.ask("rank", { query, documents, options: plain }, { signal });
  }

  /** Frees the model and ends its thread. */
  release(): Promise<void> {
    return this.#link.release();
  }
}

/** Options that can cross, whose names the thread checks, and the signal, which stays here. */
function embedOptions(
  name: string,
  given: EmbedOptions | undefined,
): { readonly plain: EmbedOptions; readonly signal: AbortSignal | undefined } {
  const { signal, ...options } = given ?? {};
  checkSignal(signal);
  return { plain: splitOptions(`the options of ${name}`, options).options.plain, signal };
}
