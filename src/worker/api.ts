/** What `insitu/worker` exports beside its two classes, in every place alike. */
export { InsituError, type ErrorCode } from "../base/error.js";
export { Tensor } from "../tensor/tensor.js";
export type { LoadLanguageModelOptions } from "../generate/causal-lm.js";
export type { Prompt } from "../generate/prompt-items.js";
export type { GeneratedToken, GenerationSummary } from "../generate/generation.js";
export type { AnyChatMessage, ChatMessage } from "../generate/messages.js";
export type { GenerateOptions } from "../generate/options.js";
export type { StateOptions } from "../session/create-state.js";
export type { SessionOptions } from "../session/options.js";
export type { RemoteGeneration as Generation } from "./remote-generation.js";
export type { RemoteChat as Chat } from "./remote-chat.js";
export type { RemoteTokenizer as TextTokenizer } from "./remote-tokenizer.js";
export type { PagesDescription } from "./messages.js";
export type { BatchToken } from "../generate/batch.js";
export type { Beam, BeamOptions } from "../generate/beams.js";
export type { ModelDefaults } from "../generate/options.js";
export type { SessionExplanation } from "../session/session.js";
export type { RemoteState as State } from "./remote-session.js";
