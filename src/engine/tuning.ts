/**
 * The engine's numbers: how far ahead of the host a device is kept busy, how much a step reads. Each row says its unit, what it trades, and where it
 * was found.
 */

/** What is begun before what came before it has come to the host. */
export const flight = {
  /** Steps under way: one computes, one waits for it, and the ids of one come to the host. More hide a slower host, and are computed for nobody at a text's end. H200, a token of 1 to 1.4 ms. */
  depth: 3,
  /** Series of steps under way, where steps are begun several at once: one computes while the next is encoded. H200. */
  seriesDepth: 2,
  /** Milliseconds of one series at most: longer ones cost the host less, and tokens come less evenly. One picture of a screen. */
  seriesMilliseconds: 16,
  /** Steps of one series at most: what the ids of a series land in is as long. */
  mostSeries: 16,
  /** What is left of a pace from one landing to the next: one landing says little. */
  paceMemory: 0.75,
} as const;

/** Texts that a server makes at a time where nobody says: more share a step's weights, and each comes slower. */
export const running = {
  /** On two cores 16 texts make 2.5 times the tokens of one; more only wait. */
  host: 16,
  /** A device reads its weights once for all of them: steps of 64 were the largest that were measured. H200. */
  device: 64,
} as const;

/** What is run before the first text of a server. */
export const warming = {
  /** Milliseconds after which no further step is begun: the server is waited for, and what is not compiled then is compiled when a text needs it. */
  milliseconds: 15_000,
} as const;

/** Where texts go back to in states without rows; how many there are is told in `base`. */
export const checkpoints = {
  /** Tokens that are made between two of them: what is read again takes as long as few of them took. */
  tokens: 64,
  /** Prompts are read up to a multiple of this, and then to their end: a prompt that comes again is read from there on. */
  block: 16,
} as const;

/** Tokens that a step reads at most where the caller does not say. */
export const budget = {
  /** On a processor: it comes up for air, and few tokens fill it. */
  hostStep: 256,
  hostChunk: 128,
  /** On a device while texts come, which wait for the step: what it reads of prompts while none does the device tells. H200: 1,024 tokens behind 8,000 take 35 ms. */
  deviceStep: 1024,
  /** Tokens of the prompt whose shaders are compiled while a model loads: those of others have most of them in common. More lengths would keep the host busy for longer. Not measured. */
  usualPrompt: 512,
  /** Milliseconds of such a step at most, once it is known how long tokens take: in more of them prompts are read faster (2,048 tokens take 26, twice 1,024 take 33), and texts that come stand still for so long. H200. */
  besideMilliseconds: 30,
} as const;
