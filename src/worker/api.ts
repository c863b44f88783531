/** What `insitu/worker` exports beside its two classes, in every place alike. */
export { InsituError, type ErrorCode } from "../base/error.js";
export { Tensor } from "../tensor/tensor.js";
export type { LoadLanguageModelOptions, Prompt } from "../generate/causal-lm.js";
export type { ChatOptions, ReasoningOptions } from "../generate/chat-options.js";
export type { ChatEvent, ChatReply } from "../generate/chat-reply.js";
export type { ChatToken } from "../generate/chat-round.js";
export type { ChatTool, ChatTools, StandardParameters, ToolCall } from "../generate/chat-tools.js";
export type { GeneratedToken, GenerationSummary } from "../generate/generation.js";
export type { AnyChatMessage, ChatMessage } from "../generate/messages.js";
export type { GenerateOptions } from "../generate/options.js";
export type { StateOptions } from "../session/create-state.js";
export type { SessionOptions } from "../session/options.js";
export type { RemoteGeneration as Generation } from "./remote-generation.js";
export type { RemoteChat as Chat } from "./remote-model.js";
export type { RemoteState as State } from "./remote-session.js";
