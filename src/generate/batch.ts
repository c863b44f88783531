/** Several texts at once: the engine makes a token of each in every step. Prompts may differ in length; what they have in common is read once on pages. */
import type { TakenConstraint } from "#insitu/choice/constraint.js";
import type { Context } from "../engine/context.js";
import { contextFull } from "../engine/ending.js";
import { PulledText, Pulls } from "../engine/pulled-text.js";
import {
  finishReasons,
  type FinishReason,
  type GeneratedToken,
  type Maker,
  stillWanted,
  wantsNothing,
} from "./generation.js";
import type { Generating } from "./options.js";

/** One generated token of a batch, with the index of its prompt. */
export interface BatchToken extends GeneratedToken {
  /** The index of the prompt that the token belongs to. */
  readonly sample: number;
  /** Why the completion ended; only on its last token. */
  readonly finishReason?: FinishReason;
}

/** Makes contexts for texts behind prompts of these lengths, of at most `capacity` tokens each; `slide`: texts may go on when those are full. */
type OpenTogether = (prompts: readonly number[], capacity: number, slide: boolean) => readonly Context[];

/** Caches are made for multiples of this: programs go by their size. */
const capacityStep = 256;

/** Makes one text for each prompt; tokens come in rounds, one of each text that goes on. */
export async function* generateBatch(
  maker: Maker,
  open: OpenTogether,
  capacity: number,
  prompts: readonly (readonly number[])[],
  options: Generating,
): AsyncGenerator<BatchToken, void, undefined> {
  if (prompts.length === 0) return;
  await stillWanted(options);
  const lengths = prompts.map(({ length }) => length);
  const longest = Math.max(...lengths);
  if (longest > capacity) throw contextFull(capacity);
  if (wantsNothing(options)) return;
  // Caches by need: the last token of a text is not read.
  const needed = Math.ceil((longest + (options.maxTokens ?? capacity) - 1) / capacityStep) * capacityStep;
  const contexts = open(lengths, Math.min(capacity, needed), options.whenFull === "slide" && needed > capacity);
  const [{ capacity: room }] = contexts;
  let going: { readonly sample: number; readonly text: PulledText }[] = [];
  const all: PulledText[] = [];
  const constraints: TakenConstraint[] = [];
  try {
    if (longest > room) throw contextFull(room);
    const { seed } = options.sampling;
    if (options.constraint !== undefined) for (const _ of prompts) constraints.push(await options.constraint());
    const pulls = new Pulls();
    for (const [sample, prompt] of prompts.entries()) {
      const context = contexts[sample];
      context.share(prompt.slice(0, -1));
      const sampling = { ...options.sampling, seed: seed + sample };
      const ask = { ...options, prompt, sampling, constraint: constraints[sample]?.rule, decoder: maker.decoder };
      all.push(new PulledText(maker.engine, ask, context, () => options.signal?.throwIfAborted(), pulls));
    }
    going = all.map((text, sample) => ({ sample, text }));
    while (going.length > 0) {
      for (const { sample, text } of going) {
        const next = await text.next();
        if (next === undefined) continue;
        const { made, end } = next;
        yield { sample, ...made, ...(end === undefined ? {} : { finishReason: finishReasons[end] }) };
        if (end === "context-full" && options.whenFull === "error") throw contextFull(room);
      }
      going = going.filter(({ text }) => !text.isOver);
      options.signal?.throwIfAborted();
    }
  } finally {
    for (const text of all) await text.leave();
    for (const constraint of constraints) constraint.release();
    for (const context of contexts) context.release();
  }
}
