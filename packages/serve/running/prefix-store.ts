/** What an engine is told of a store of beginnings: where it is, what its names depend on, and from which length on it is asked. */
import type { PageStore } from "#insitu/base/page-store.js";
import type { PagedState } from "#insitu/cache/paged-state.js";
import type { CheckedStoreOptions } from "./checked-store.js";

/** Where prefixes are kept, and what their bytes depend on beside tokens and salt: model, weights, types, the backend that computed them. */
export interface PrefixStore extends CheckedStoreOptions {
  readonly store: PageStore;
  readonly fingerprint: string;
  /** Tokens from which on the store is asked for a beginning: what a run would take longer for. 64 where left out. */
  readonly leastTokens?: number;
  /** How long the store keeps what nobody writes again; for good where left out. */
  readonly keptMilliseconds?: number;
  /** Bytes that may be on their way to the store; what comes on top is not kept. 128 MiB where left out. */
  readonly pendingBytes?: number;
  /** What a run takes for a block, in milliseconds: where given, `leastTokens` follows what the store takes, which is measured again and again. */
  readonly computeBlock?: number;
}

/** What names depend on beside tokens and salt. */
export const pageFingerprint = (fingerprint: string, { pool, blockBytes }: PagedState): string =>
  JSON.stringify([fingerprint, pool.blockSize, blockBytes]);
