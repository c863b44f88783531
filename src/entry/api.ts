/** What both entry points export beside the session class, which differs in how it opens files. */
export { InsituError, type ErrorCode } from "../base/error.js";
export type { ElementType } from "../tensor/element-type.js";
export type { TensorData } from "../tensor/tensor.js";
export * from "./onnxruntime.js";
export type { ModelSource } from "../session/load.js";
export type { BackendSettings } from "../backends/settings.js";
export type { WasmSettings } from "../backends/wasm/settings.js";
export type { LoadPhase, LoadProgress } from "../session/load-progress.js";
export type { InPlacePolicy, RewritePolicy, SessionOptions } from "../session/options.js";
export type { BackendName } from "../backends/backend.js";
export type { ChatRole, ModelVariant, ReasoningEffort, ToolFormat } from "../base/known-names.js";
export type { TensorLike } from "../tensor/tensor-like.js";
export type { Feeds } from "../session/feeds.js";
export type { Fetches } from "../session/results.js";
export type { HeldInput } from "../session/held-inputs.js";
export type { StateOptions } from "../session/create-state.js";
export type { PairNames } from "../plan/named-pairs.js";
export { Checkpoint } from "../session/checkpoint.js";
export { State } from "../session/state.js";
export type { StateStatistics } from "../session/state-owner.js";
export type { CacheEdit, EditAttribute, EditedCache } from "../session/cache-edits.js";
export type { ValueMetadata } from "../session/metadata.js";
export type { RunOptions } from "../session/run-options.js";
export type { SessionExplanation } from "../session/session.js";
export type { StartedRun } from "../session/stateful-run.js";
export { ops } from "#insitu/functions/ops.js";
export type { RewriteOptions } from "#insitu/rewrite/rewrite.js";
export type { RewrittenBytes } from "#insitu/rewrite/rewrite-source.js";
export type { AttentionReport, CacheReport, RewriteReport } from "#insitu/rewrite/report.js";
export type { LoadLanguageModelOptions } from "../generate/causal-lm.js";
export type { Prompt } from "../generate/prompt-items.js";
export type { DraftHead } from "#insitu/heads/draft-head.js";
export type { DraftModel, GenerateOptions, SpeculateOptions } from "../generate/options.js";
export type { GeneratedObject, ObjectOptions, ObjectStream, PartialObject } from "../generate/object.js";
export type { ObjectSchema, StandardSchema } from "#insitu/dialogue/standard-schema.js";
export type { Pooling } from "#insitu/embedding/pooling.js";
export type { EmbedOptions, LoadEmbeddingOptions, RankedDocument } from "#insitu/embedding/text-embedder.js";
export type { WhenFull } from "../engine/text-ask.js";
export type { FinishReason, GeneratedToken, Generation, GenerationSummary } from "../generate/generation.js";
export type { BatchToken } from "../generate/batch.js";
export type { Beam, BeamOptions } from "../generate/beams.js";
export type { Chat } from "../generate/chat.js";
export type { ChatOptions, ReasoningOptions } from "../generate/chat-options.js";
export type { ChatEvent, ChatReply } from "../generate/chat-reply.js";
export type { ChatToken } from "../generate/chat-round.js";
export type { ChatTool, ChatTools, StandardParameters, ToolCall } from "../generate/chat-tools.js";
export type { AnyChatMessage, ChatMessage, ChatPart, ChatPartsMessage } from "../generate/messages.js";
export type { ControlTokens, EncodeOptions, TextTokenizer } from "../generate/tokenizer.js";
export type {
  CatalogueModel,
  CatalogueVariant,
  DownloadPlan,
  DownloadProgress,
  HubOptions,
  KeptModel,
  Models,
  ModelStorage,
} from "#insitu/hub/models-api.js";
export { BlockPool } from "../cache/block-pool.js";
export type { AppendEntry, BlockDescription, BlockPoolOptions, PoolStatistics } from "../cache/block-pool.js";
export type { PrefixHash } from "../cache/prefix-index.js";
export type { Sequence } from "../cache/sequence.js";
export { pages } from "../cache/pages.js";
export type { CacheType, PageLayout, PagesOptions } from "#insitu/rewrite/page-names.js";
export { PagedState } from "../cache/paged-state.js";
export type { Evicted, PagedBatch, PagedLogits, PagedStateOptions } from "../cache/paged-state.js";
export type { PagedEntry } from "../cache/run-entries.js";
export { PerHeadState, type PerHeadText } from "#insitu/eviction/per-head-state.js";
export { headBudgets, heavyHitters, recentWindow } from "../cache/eviction.js";
export type { CachedRows, EvictionPolicy } from "../cache/eviction.js";
export { EvictingState, type EvictingStateOptions } from "#insitu/eviction/evicting-state.js";
export { withAttentionScores } from "#insitu/eviction/scores-model.js";
export type { CacheOptions } from "../engine/paged-decoder.js";
