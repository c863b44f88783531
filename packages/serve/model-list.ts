/** The models of a server as requests name them and /v1/models lists them: those that make texts, and those that make embeddings. */
import type { TextEmbedder } from "#insitu/embedding/text-embedder.js";
import type { ServerSettings } from "./options.js";
import type { ServedModels } from "./served-models.js";
import { nowSeconds } from "./wire/identity.js";
import type { ListedModel } from "./wire/ollama-models.js";
import { type ServedModel, unknownModel, untagged } from "./wire/served-model.js";

/** Names and what is told of them. */
export class ModelList {
  readonly #settings: Pick<ServerSettings, "model" | "aliases" | "embedders">;
  readonly #models: ServedModels | undefined;
  readonly #created = nowSeconds();

  /** `models`: where there are several; else there is the one of the settings. */
  constructor(settings: ServerSettings, models: ServedModels | undefined) {
    this.#settings = settings;
    this.#models = models;
  }

  /** Those that make texts. */
  get names(): readonly string[] {
    return this.#models?.facts.map(({ name }) => name) ?? [this.#settings.model];
  }

  /** The name that stands for a model, by its own or another one; throws where there is none. */
  nameOf(asked: string): string {
    const names = [...this.names, ...this.#settings.embedders.keys()];
    const known = (each: string): string | undefined =>
      names.includes(each) ? each : this.#settings.aliases.get(each);
    const name = known(asked) ?? known(untagged(asked));
    if (name === undefined || !names.includes(name)) throw unknownModel(asked, names);
    return name;
  }

  /** Other names of a model. */
  aliasesOf(name: string): readonly string[] {
    return [...this.#settings.aliases].flatMap(([alias, of]) => (of === name ? [alias] : []));
  }

  /** The embedding model that a body names; the first where it names none. */
  embedderOf(body: unknown): readonly [name: string, embedder: TextEmbedder] | undefined {
    const { embedders, aliases } = this.#settings;
    const asked = (body as { readonly model?: unknown } | null)?.model;
    if (typeof asked !== "string") return [...embedders][0];
    for (const given of [asked, untagged(asked)]) {
      const name = embedders.has(given) ? given : (aliases.get(given) ?? given);
      const found = embedders.get(name);
      if (found !== undefined) return [name, found];
    }
    return undefined;
  }

  /** What Ollama's door tells of. */
  listed(one: ServedModel | undefined): readonly ListedModel[] {
    const models = this.#models?.facts ?? [{ name: this.#settings.model, model: one, bytes: undefined, pinned: true }];
    const created = this.#created;
    return [
      ...models.map(({ name, model, bytes, pinned }) => ({
        name,
        model,
        bytes,
        pinned,
        created: model?.created ?? created,
      })),
      ...Array.from(this.#settings.embedders, ([name, embedder]) => ({ name, embedder, pinned: true, created })),
    ];
  }

  /** What /v1/models tells; `one` is the model where there is one alone. */
  described(one: ServedModel | undefined): readonly { readonly id: string }[] {
    const told = (name: string, model: ServedModel | undefined) => ({
      id: name,
      object: "model",
      owned_by: "insitu",
      created: model?.created ?? this.#created,
      ...(model === undefined ? {} : { max_model_len: model.engine.context, insitu: factsOf(model) }),
    });
    const embedders = Array.from(this.#settings.embedders, ([name, { maxTokens, isCrossEncoder }]) => ({
      ...told(name, undefined),
      max_model_len: maxTokens,
      task: isCrossEncoder ? "rerank" : "embed",
    }));
    if (this.#models === undefined) return [told(this.#settings.model, one), ...embedders];
    const models = this.#models.facts.map(({ name, model, state, pinned, bytes, waiting }) => ({
      ...told(name, model),
      state,
      pinned,
      waiting,
      ...(bytes === undefined ? {} : { memory_bytes: bytes }),
      aliases: this.aliasesOf(name),
    }));
    return [...models, ...embedders];
  }
}

/** What a page must know of a model beside OpenAI's fields. */
const factsOf = ({ lm: { session, tokenizer, defaults } }: ServedModel): object => ({
  chat_template: tokenizer.hasChatTemplate,
  backend: session.backend,
  sampling: defaults.sampling,
});
