/** Whole decoders on a device as groups: a token behind short and long contexts, what the length costs, a prompt, many texts at once. */
import type { Contestant, Figures, Group, Result } from "../load.js";
import { awake } from "./awake.js";
import type { DeviceDecoder } from "./decoder.js";
import type { KeptDecoder } from "./kept.js";
import type { WeightKind } from "./model-files.js";
import { type DeviceSizes, modelText, promptOf } from "./sizes.js";

/** Prompts whose next token everyone must agree on. */
const [asked, askedLength] = [8, 12];

/** Random weights have close calls: so many of the tokens may differ. */
const mayDiffer = 2;

/** Tokens agree with the first contestant's but for a few. */
const tokensAgree: Group["check"] = (results) => {
  const problems = new Map<string, string>();
  const [first, ...others] = results;
  // Where there is not enough memory for anybody, nobody has a result.
  if (first === undefined) return problems;
  const expected = first[1] as Int32Array;
  for (const [name, result] of others) {
    const differing = expected.filter((token, at) => token !== (result as Int32Array)[at]).length;
    if (differing > mayDiffer) problems.set(name, `chooses ${differing} of ${expected.length} tokens otherwise`);
  }
  return problems;
};

type Work = (decoder: DeviceDecoder) => Promise<number>;

/** A contestant that does some work with a decoder. */
function contestant(
  kept: KeptDecoder,
  sizes: DeviceSizes,
  work: Work,
  figures: (medianMs: number, decoder: DeviceDecoder) => Figures = () => ({}),
  name = kept.name,
): Contestant {
  return {
    name,
    runtime: kept.runtime,
    async start() {
      const decoder = await kept.get();
      return {
        run: () => awake(() => work(decoder), sizes.wakeMilliseconds),
        result: async (): Promise<Result> =>
          Int32Array.from(
            await decoder.next(
              Array.from({ length: asked }, (_, text) => promptOf(1000 + text, askedLength, sizes.model)),
            ),
          ),
        figures: (medianMs) => figures(medianMs, decoder),
        stop: () => Promise.resolve(),
      };
    },
  };
}

/** `int4 weights`: what a group's model is. */
export const weightsText = (kind: WeightKind, { type }: DeviceSizes): string =>
  `${kind === "plain" ? type : kind} weights`;

const stepFigures = ({ bytesAStep, tokensInFlight }: DeviceDecoder): Figures => ({
  ...(bytesAStep === undefined ? {} : { "GPU bytes allocated a token": bytesAStep }),
  ...(tokensInFlight === undefined ? {} : { "tokens in flight": tokensInFlight }),
});

/** One token behind a context. */
function tokenGroup(kind: WeightKind, decoders: readonly KeptDecoder[], sizes: DeviceSizes, context: number): Group {
  const prompt = promptOf(context, context, sizes.model);
  return {
    name: `one token at context ${context}, ${weightsText(kind, sizes)}, ${modelText(sizes.model)}`,
    contestants: decoders.map((kept) =>
      contestant(
        kept,
        sizes,
        (decoder) => decoder.decode([prompt], sizes.tokens),
        (medianMs, decoder) => ({ "tokens a second": 1000 / medianMs, ...stepFigures(decoder) }),
      ),
    ),
    repeats: 9,
    check: tokensAgree,
  };
}

/** What a token behind the long context takes longer than one behind the short one. */
function growthGroup(
  kind: WeightKind,
  decoders: readonly KeptDecoder[],
  sizes: DeviceSizes,
  attention: Contestant,
): Group {
  const [short, long] = sizes.contexts;
  const [before, behind] = sizes.contexts.map((context) => promptOf(context, context, sizes.model));
  return {
    name: `what a token takes longer at context ${long} than at ${short}, ${weightsText(kind, sizes)}`,
    contestants: [
      ...decoders.map((kept) =>
        contestant(kept, sizes, async (decoder) => {
          const first = await decoder.decode([before], sizes.tokens);
          return (await decoder.decode([behind], sizes.tokens)) - first;
        }),
      ),
      attention,
    ],
    repeats: 5,
    check: (results) => tokensAgree(new Map([...results].filter(([name]) => name !== attention.name))),
  };
}

/** A prompt, read from its beginning: by those who read it in one run, which their rows say, and by others as they do it. */
function promptGroup(kind: WeightKind, { single, chunked }: Entrants, sizes: DeviceSizes): Group {
  let text = 2000;
  const decoders = [...single.slice(0, 1), chunked, ...single.slice(1)];
  return {
    name: `a prompt of ${sizes.prompt} tokens, ${weightsText(kind, sizes)}, and the token behind it`,
    // Each run reads another text: nothing of it was read before.
    contestants: decoders.map((kept) =>
      contestant(
        kept,
        sizes,
        (decoder) => decoder.prefill(promptOf(text++, sizes.prompt, sizes.model)),
        (medianMs) => ({ "tokens a second": (sizes.prompt * 1000) / medianMs }),
        kept === chunked || kept.runtime !== "insitu" ? kept.name : `${kept.name}, the prompt in one run`,
      ),
    ),
    repeats: 9,
    check: tokensAgree,
  };
}

/** A long prompt, as users have it read. */
function longPromptGroup(kind: WeightKind, kept: KeptDecoder, sizes: DeviceSizes): Group {
  const { longPrompt, model } = sizes;
  let text = 4000;
  const read = (decoder: DeviceDecoder): Promise<number> => decoder.prefill(promptOf(text++, longPrompt, model));
  const reading = contestant(kept, sizes, read, (medianMs) => ({ "tokens a second": (longPrompt * 1000) / medianMs }));
  return {
    name: `a prompt of ${longPrompt} tokens, ${weightsText(kind, sizes)}, and the token behind it`,
    contestants: [
      {
        ...reading,
        mayLackMemory: true,
        // What there is not enough memory for is known once it was done.
        start: async () => {
          await read(await kept.get());
          return reading.start();
        },
      },
    ],
    repeats: 3,
    stop: () => kept.stop(),
    check: tokensAgree,
  };
}

/** Many texts at once. */
function batchGroup(kind: WeightKind, decoders: readonly KeptDecoder[], sizes: DeviceSizes): Group {
  const { texts, context, steps } = sizes.batch;
  const prompts = Array.from({ length: texts }, (_, text) => promptOf(3000 + text, context, sizes.model));
  return {
    name: `a step of ${texts} texts at context ${context}, ${weightsText(kind, sizes)}`,
    contestants: decoders.map((kept) =>
      contestant(
        kept,
        sizes,
        (decoder) => decoder.decode(prompts, steps),
        (medianMs) => ({ "tokens a second": (texts * 1000) / medianMs }),
      ),
    ),
    repeats: 5,
    check: tokensAgree,
  };
}

/** Many texts at once from their prompts to their ends, as users have them made, and on pages. */
function wholeBatchGroup(kind: WeightKind, decoders: readonly KeptDecoder[], sizes: DeviceSizes): Group {
  const { texts, context, tokens } = sizes.batch;
  let text = 5000;
  return {
    name: `${texts} texts of ${tokens} tokens behind ${context}, prompts counted, ${weightsText(kind, sizes)}`,
    contestants: decoders.map((kept) =>
      contestant(
        kept,
        sizes,
        (decoder) =>
          decoder.batch!(
            Array.from({ length: texts }, () => promptOf(text++, context, sizes.model)),
            tokens,
          ),
        (medianMs, { firstTokenMs }) => ({
          "tokens a second": (texts * tokens * 1000) / medianMs,
          ...(firstTokenMs === undefined ? {} : { "ms to the first token": firstTokenMs }),
        }),
      ),
    ),
    repeats: 3,
    check: tokensAgree,
  };
}

/** Who takes part in what. */
interface Entrants {
  /** One text. */
  readonly single: readonly KeptDecoder[];
  /** One text whose prompt is read in the runtime's own chunks, and one who has room for the long prompt. */
  readonly chunked: KeptDecoder;
  readonly long: KeptDecoder;
  /** Many texts at once. */
  readonly many: readonly KeptDecoder[];
  /** Many texts at once, prompts counted. */
  readonly whole: readonly KeptDecoder[];
}

/** All groups of one kind of weights. `attention`: what attention alone takes longer behind the long context. */
export function decoderGroups(
  kind: WeightKind,
  entrants: Entrants,
  sizes: DeviceSizes,
  attention: Contestant,
): Group[] {
  const { single, chunked, long, many, whole } = entrants;
  const only = (decoders: readonly KeptDecoder[]): KeptDecoder[] => decoders.filter((kept) => !many.includes(kept));
  return [
    ...sizes.contexts.map((context) => tokenGroup(kind, single, sizes, context)),
    growthGroup(kind, single, sizes, attention),
    { ...promptGroup(kind, entrants, sizes), stop: () => stopAll(only([...single, chunked])) },
    longPromptGroup(kind, long, sizes),
    batchGroup(kind, many, sizes),
    { ...wholeBatchGroup(kind, whole, sizes), stop: () => stopAll([...single, ...many, ...whole]) },
  ];
}

/** A GPU need not hold what is measured no more. */
async function stopAll(decoders: readonly KeptDecoder[]): Promise<void> {
  for (const kept of decoders) await kept.stop();
}
