/**
 * Several texts at once in one state: each run makes a token for every text. Prompts may differ in length. Where texts can take over
 * what others have read, what prompts have in common is read once.
 */
import { InsituError } from "../base/error.js";
import type { Logits } from "../cache/logits.js";
import { checkToken } from "../cache/token-drawer.js";
import type { DecoderState, StatefulDecoder } from "./decoder.js";
import { contextFull, Ending, type FinishReason, stillWanted, wantsNothing } from "./ending.js";
import type { GeneratedToken } from "./generation.js";
import { batchFlightFor } from "./flight.js";
import type { Generating } from "./options.js";
import { type PromptReading, tokensFrom } from "./prompt-parts.js";
import { readApart } from "./read-apart.js";
import { describeChoice, Sampler } from "./sampling.js";
import type { TokenDecoder } from "./text-stream.js";

/** A token of one of the texts. */
export interface BatchToken extends GeneratedToken {
  /** Which text it belongs to. */
  readonly sample: number;
  /** Why the text ended, with its last token. */
  readonly finishReason?: FinishReason;
}

/** One text of a batch. */
interface Sample {
  readonly prompt: readonly number[];
  readonly sampler: Sampler;
  readonly ending: Ending;
  /** Slots before the prompt. */
  readonly padding: number;
  /** The token that the next run reads. */
  next: number;
}

/** What a batch runs on. */
interface BatchPlace {
  readonly decoder: StatefulDecoder;
  readonly text: TokenDecoder;
  readonly capacity: number;
  readonly reading: PromptReading;
}

/** Makes one text for each prompt. Texts that are finished keep their place, unread, until the last one is. */
export async function* generateBatch(
  given: BatchPlace,
  prompts: readonly (readonly number[])[],
  options: Generating,
): AsyncGenerator<BatchToken, void, undefined> {
  if (prompts.length === 0) return;
  const check = (): Promise<void> => stillWanted(options);
  await check();
  // Texts beside each other are not read anew one by one: they stay short ones.
  const place = { ...given, capacity: Math.min(given.capacity, given.reading.longFrom ?? Infinity) };
  const { decoder, capacity } = place;
  const longest = Math.max(...prompts.map(({ length }) => length));
  if (longest > capacity) throw contextFull(capacity);
  if (options.whenFull === "slide")
    throw new InsituError("invalid-argument", 'a batch cannot slide: choose whenFull: "stop" or "error"');
  if (wantsNothing(options)) return;
  // Without lengths of their own and without padding, texts are made one after the other.
  if (!decoder.ragged && decoder.padsFront === false && prompts.length > 1) {
    for (const [sample, prompt] of prompts.entries()) {
      const sampling = { ...options.sampling, seed: options.sampling.seed + sample };
      for await (const token of generateBatch(place, [prompt], { ...options, sampling })) yield { ...token, sample };
    }
    return;
  }
  const samples = prompts.map((prompt, index): Sample => ({
    prompt,
    sampler: new Sampler({ ...options.sampling, seed: options.sampling.seed + index }, prompt),
    ending: new Ending(place.text, prompt, options),
    // Caches whose samples share one length are padded at the front.
    padding: decoder.ragged ? 0 : longest - prompt.length,
    next: 0,
  }));
  const state = decoder.createState(prompts.length, capacity);
  const lengths = prompts.map(({ length }) => length);
  let flight: ReturnType<typeof batchFlightFor>;
  try {
    flight = batchFlightFor({ decoder, state, capacity }, prompts, options);
    await flight?.begin(place.reading, check);
    let rows: readonly (Float32Array | number)[] = await (flight?.next() ??
      (decoder.uneven
        ? readUnevenly(place, state, samples, check)
        : readPrompts(place, state, samples, longest, check)));
    for (let read = 0; ; read++) {
      for (const [index, sample] of samples.entries()) {
        if (isFinished(sample)) continue;
        const isFull = sample.padding + lengths[index] + read >= capacity;
        yield choose(sample, index, rows[index], options, isFull);
        sample.ending.requireRoom(capacity);
      }
      if (samples.every(isFinished)) return;
      await check();
      rows = await (flight?.next(samples.map(isFinished)) ?? readNext(place, state, samples));
    }
  } finally {
    flight?.end();
    state.release();
  }
}

/** Reads all prompts in chunks, with a check before each; the logits after each one's last token. */
async function readPrompts(
  place: BatchPlace,
  state: DecoderState,
  samples: readonly Sample[],
  longest: number,
  check: () => Promise<void>,
): Promise<Float32Array[]> {
  const {
    decoder,
    reading: { chunk },
  } = place;
  const padding = samples.map((sample) => sample.padding);
  const { ragged } = decoder;
  // Where prompts end at different rows, their last tokens are read by themselves: a model may have logits of the last one alone.
  const read = ragged ? longest - 1 : longest;
  let logits: Logits | undefined;
  for (let at = 0; at < read; at += chunk) {
    const count = Math.min(chunk, read - at);
    await check();
    logits = await decoder.run(state, {
      tokens: samples.map((sample) => tokensFrom(sample.prompt, at - sample.padding, count)),
      positions: samples.map((sample) => (ragged ? Math.min(at, sample.prompt.length - 1) : at - sample.padding)),
      padding,
      keep: 1,
    });
    // What was read behind a prompt's end is forgotten.
    if (ragged) state.rewind(samples.map(({ prompt }) => Math.min(at + count, prompt.length - 1)));
  }
  await check();
  if (ragged || logits === undefined)
    logits = await decoder.run(state, {
      tokens: samples.map(({ prompt }) => prompt.slice(-1)),
      positions: state.lengths,
      padding,
      keep: 1,
    });
  const last = logits;
  return samples.map((_, index) => last.at(0, index).slice());
}

/** Reads all prompts, each from where it differs from what has been read before; the logits after each one's last token. */
async function readUnevenly(
  { decoder, reading }: BatchPlace,
  state: DecoderState,
  samples: readonly Sample[],
  check: () => Promise<void>,
): Promise<Float32Array[]> {
  const prompts = samples.map(({ prompt }) => prompt);
  const rows: Float32Array[] = [];
  const read = async (tokens: readonly (readonly number[])[], starts: readonly number[]): Promise<void> => {
    await check();
    const logits = await decoder.run(state, { tokens, positions: starts, keep: 1 });
    for (const [sample, { length }] of tokens.entries())
      if (length > 0 && starts[sample] + length === prompts[sample].length) rows[sample] = logits.at(0, sample).slice();
  };
  await readApart({ state, prompts, ends: prompts.map(({ length }) => length), chunk: reading.chunk, read });
  return rows;
}

/** Reads each text's newest token; the logits after it. */
async function readNext(
  { decoder, capacity }: BatchPlace,
  state: DecoderState,
  samples: readonly Sample[],
): Promise<Float32Array[]> {
  const lengths = state.lengths;
  if (decoder.uneven) {
    const tokens = samples.map((sample) => (isFinished(sample) ? [] : [sample.next]));
    const logits = await decoder.run(state, { tokens, positions: lengths });
    return tokens.map(({ length }, index) => (length > 0 ? logits.at(0, index) : new Float32Array()));
  }
  if (decoder.ragged) {
    // A finished text needs a row to write to, too.
    const room = lengths.map((length, index) => (isFinished(samples[index]) ? Math.min(length, capacity - 1) : length));
    state.rewind(room);
  }
  const before = state.lengths;
  const logits = await decoder.run(state, {
    tokens: samples.map(({ next }) => [next]),
    positions: samples.map(({ padding }, index) => before[index] - padding),
    padding: samples.map(({ padding }) => padding),
  });
  if (decoder.ragged) state.rewind(before.map((length, index) => length + (isFinished(samples[index]) ? 0 : 1)));
  return samples.map((_, index) => logits.at(0, index));
}

const isFinished = ({ ending }: Sample): boolean => ending.finish !== "unfinished";

/** The next token of a text, drawn already or to be chosen by its logits; the last one may be a token that only ends it. */
function choose(
  sample: Sample,
  index: number,
  from: Float32Array | number,
  { logprobs }: Generating,
  full: boolean,
): BatchToken {
  const token = typeof from === "number" ? checkToken(from) : sample.sampler.choose(from, sample.ending.barred);
  const { text, finish } = sample.ending.push(token, full);
  if (finish === undefined) {
    sample.sampler.accept(token);
    sample.next = token;
  }
  return {
    sample: index,
    token,
    text,
    ...(typeof from === "number" ? {} : describeChoice(from, token, logprobs)),
    ...(finish === undefined ? {} : { finishReason: finish }),
  };
}
