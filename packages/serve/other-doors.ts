/** The paths of interfaces beside OpenAI's: Anthropic's messages and Ollama's. Every door leads to the same models, limits and records. */
import { countMessages, prepareMessages } from "./wire/anthropic.js";
import { ApiError } from "./wire/api-error.js";
import { prepareOllamaChat, prepareOllamaText } from "./wire/ollama.js";
import {
  embedByEmbedder,
  embedByModel,
  type ListedModel,
  modelsAreFixed,
  ollamaVersion,
  psBody,
  showEmbedder,
  showModel,
  tagsBody,
} from "./wire/ollama-models.js";
import type { Answering, Embedding, Prepared, Reading } from "./wire/prepared.js";

/** What a server does at a path. */
interface Doorway {
  /** Answers with texts. */
  texts(path: string, read: Reading<Prepared>): void;
  /** Answers with one object. */
  plain(path: string, read: Reading<Answering>, embeds?: Embedding<Answering>): void;
  /** Tells of the server. */
  tells(path: string, body: () => object | Promise<object>): void;
  /** Refuses whatever is asked by these methods. */
  refuses(methods: readonly string[], path: string, error: (path: string) => ApiError): void;
  /** The models that there are. */
  models(): readonly ListedModel[];
  /** Seconds that a model stays which nobody asks. */
  readonly keepAlive: number;
}

/** Opens the doors. */
export function openOtherDoors(to: Doorway): void {
  to.texts("/v1/messages", prepareMessages);
  to.plain("/v1/messages/count_tokens", countMessages);
  to.texts("/api/chat", prepareOllamaChat);
  to.texts("/api/generate", prepareOllamaText);
  to.plain("/api/embed", embedByModel, embedByEmbedder);
  to.plain("/api/show", showModel, showEmbedder);
  to.tells("/api/tags", () => tagsBody(to.models()));
  to.tells("/api/ps", () => psBody(to.models(), to.keepAlive));
  to.tells("/api/version", () => ({ version: ollamaVersion }));
  for (const what of ["pull", "push", "create", "copy"]) to.refuses(["POST"], `/api/${what}`, modelsAreFixed);
  to.refuses(["DELETE"], "/api/delete", modelsAreFixed);
  to.refuses(["GET", "POST", "DELETE"], "/v1/responses/:id{.+}", nothingIsKept);
}

const nothingIsKept = (path: string): ApiError =>
  new ApiError(
    404,
    `there is no ${path} here: responses are not kept, whatever store says; send the conversation as input`,
    {
      code: "response_not_kept",
    },
  );
