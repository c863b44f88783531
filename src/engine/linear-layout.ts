/**
 * Texts on linear caches: each has a state of its own, or several that are made together are the samples of one. Prompts are read in chunks; the samples
 * of one state go on step by step beside each other, those that have ended too.
 */
import { InsituError } from "../base/error.js";
import type { Decoder } from "../decoder/decoder.js";
import type { Logits } from "../decoder/logits.js";
import type { DrawnRun, OneDrawing } from "../decoder/token-drawer.js";
import { Context, type ContextOptions } from "./context.js";
import type { Lane } from "./lane.js";
import { LinearGroup, LinearRows } from "./linear-rows.js";
import { blockPart, chunkFor, nextPart, nextRows, type PromptReading } from "./prompt-parts.js";
import {
  type BegunRuns,
  drawingsOfPart,
  drawnRow,
  isOneToken,
  type Layout,
  type PartResult,
  type Step,
  type StepPart,
  type StepPlan,
  type TextFailure,
} from "./step.js";
import type { EngineText } from "./text.js";

/** Tokens of a prompt that are read at once however little memory there is. */
const leastChunk = 64;

/** States, and the texts that lie there. */
export class LinearLayout implements Layout {
  readonly draws: boolean;
  readonly checks: boolean;
  readonly goesAhead: boolean;
  readonly #decoder: Decoder;
  #reading: PromptReading;
  /** The texts of each group, by sample. */
  readonly #groups = new Map<LinearGroup, (EngineText | undefined)[]>();

  constructor(decoder: Decoder, reading: PromptReading, goesAhead: boolean) {
    this.#decoder = decoder;
    this.#reading = reading;
    this.goesAhead = goesAhead;
    this.draws = goesAhead && decoder.draws;
    this.checks = this.draws && decoder.picksRows;
  }

  /** Empty contexts for texts that are made together: for one, or for several with prompts of these lengths. */
  static open(decoder: Decoder, options: ContextOptions, prompts: readonly number[] = [0]): Context[] {
    const { capacity } = options;
    const longest = Math.max(...prompts);
    const padding = prompts.map((length) => (decoder.ragged ? 0 : longest - length));
    const group = new LinearGroup(decoder, decoder.createState(prompts.length, capacity), capacity, padding);
    return prompts.map((_, sample) => new Context(new LinearRows(group, sample), options));
  }

  add(text: EngineText): void {
    const { group, sample } = rowsOf(text);
    const texts = this.#groups.get(group) ?? new Array<EngineText | undefined>(group.samples).fill(undefined);
    texts[sample] = text;
    this.#groups.set(group, texts);
    text.context.mark("text");
    text.start();
  }

  remove(text: EngineText): void {
    const { group, sample } = rowsOf(text);
    const texts = this.#groups.get(group);
    if (texts?.[sample] !== text) return;
    texts[sample] = undefined;
    if (texts.some((other) => other !== undefined)) return;
    this.#groups.delete(group);
    group.rest();
    group.lane.drawn = new Map();
  }

  laneOf(text: EngineText): Lane {
    return rowsOf(text).group.lane;
  }

  plan(isReady: (text: EngineText) => boolean): StepPlan {
    const steps: Step[] = [];
    const failed: TextFailure[] = [];
    for (const [group, all] of this.#groups) {
      const texts = all.filter((text): text is EngineText => text !== undefined && !text.isOver);
      const ready = texts.filter(isReady);
      // Those of one state go on together: none is left behind by one that has to wait.
      const mayGo = group.samples === 1 ? ready.length === 1 : texts.every((text) => text.isReady(group.lane));
      if (ready.length === 0 || !mayGo) continue;
      try {
        const parts = group.samples === 1 ? [this.#partOf(ready[0])] : this.#partsOf(group, texts);
        if (!this.#isLate(group, parts)) steps.push({ lane: group.lane, parts });
      } catch (error) {
        failed.push(...texts.map((text) => ({ text, error })));
      }
    }
    return { steps, failed };
  }

  /** Penalties go by tokens: those of texts whose last one is not known go on only where the device has noted it. */
  #isLate(group: LinearGroup, parts: readonly StepPart[]): boolean {
    const isPenalized = ({ tokens, text }: StepPart): boolean =>
      tokens === "drawn" && text.drawing!.options.repetitionPenalty !== 1;
    return (
      parts.some(isPenalized) && !parts.every(({ tokens, text }) => tokens === "drawn" && group.lane.drawn.has(text))
    );
  }

  /** The next part of a text that is alone in its state. */
  #partOf(text: EngineText): StepPart {
    const { context, unread } = text;
    if (text.slides || text.pending === 0) return text.part(1);
    const long = context.longPart(text.pending);
    if (long > 0) {
      if (text.readAgain(context.length)) return text.part(Math.max(long, this.#reading.chunk));
      throw new InsituError(
        "invalid-state",
        `a text of more than ${long - 1} tokens is read with other rotary tables from its first token on, and the model's state cannot go back: load the model with context: ${long - 1}, or less`,
      );
    }
    if (text.triesOut) {
      context.mark("guess");
      return text.part(unread);
    }
    const left = Math.min(unread, context.room);
    const { count, again } = nextPart(left, context.length, this.#reading);
    if (context.rows.goesBack && text.readAgain(again)) return text.part(count);
    // A state that goes back to checkpoints reads on from where it is, and up to where one is of use.
    const part = nextPart(left, 0, this.#reading);
    return text.part(this.#reading.recurs === true ? part.count : blockPart(part.count, left, context.length));
  }

  /** The next parts of texts in one state: prompts but for their last tokens, which are read together, since a model may have logits of the last one alone. */
  #partsOf(group: LinearGroup, texts: readonly EngineText[]): readonly StepPart[] {
    const { chunk } = this.#reading;
    if (!this.#decoder.ragged) {
      const [rows] = group.state.lengths;
      const end = Math.max(...texts.map((text) => paddingOf(text) + text.context.length + text.unread));
      const count = Math.min(chunk, end - rows);
      // Those that are short begin when the others have come so far.
      return texts.flatMap((text) => {
        const own = rows + count - paddingOf(text) - text.context.length;
        return own > 0 ? [text.part(own)] : [];
      });
    }
    const longest = Math.max(...texts.map(({ context }) => context.length));
    // Guesses are checked in one run with the last tokens of the others.
    if (texts.some(({ triesOut }) => triesOut) && texts.every(({ triesOut, unread }) => triesOut || unread === 1))
      return texts.map((text) => text.part(Math.max(1, Math.min(text.unread, group.capacity - longest))));
    const left = Math.max(...texts.map(({ unread }) => unread)) - 1;
    if (left === 0) return texts.map((text) => text.part(1));
    const rows = this.goesAhead ? { ...this.#reading, chunk: this.#rowsOfEach(left, group.samples) } : this.#reading;
    const count = nextRows(left, group.capacity - longest, rows);
    return texts.flatMap((text) => (text.unread > 1 ? [text.part(Math.min(count, text.unread - 1))] : []));
  }

  /** Tokens that one run reads of each of several prompts, of the longest of which so many are left. */
  #rowsOfEach(left: number, samples: number): number {
    return Math.max(1, Math.floor(chunkFor(left * samples, this.#reading) / samples));
  }

  mayRepeat({ lane, parts }: Step, count: number): boolean {
    const { group } = rowsOf(parts[0].text);
    if (parts.some(({ wants }) => wants !== "token")) return false;
    const drawings = this.#drawingsOf(group, parts, 1);
    const from = sourcesOf(lane, bySample(group, parts)) ?? [];
    return (
      this.goesAhead &&
      parts.every((part) => isOneToken(part, lane.drawn) && part.text.context.room >= count) &&
      group.capacity > count &&
      group.drawer.goesOn(from, drawings)
    );
  }

  async begin({ lane, parts }: Step, count: number): Promise<BegunRuns> {
    const { group } = rowsOf(parts[0].text);
    const { state, padding, samples } = group;
    const { ragged } = this.#decoder;
    const length = Math.max(...parts.map(({ tokens }) => (tokens === "drawn" ? 1 : tokens.length)));
    const own = bySample(group, parts);
    const [only] = parts;
    // One that has ended, or does not read now, needs rows to write to, too.
    if (ragged && samples > 1)
      state.rewind(
        state.lengths.map((rows, sample) => (own[sample] ? rows : Math.min(rows, group.capacity - length * count))),
      );
    const before = state.lengths;
    const mostKept = Math.max(...parts.map(({ keep }) => keep));
    const step = {
      tokens: own.map((part) => tokensOf(part, length, ragged)),
      positions: own.map((part, sample) => {
        if (part === undefined) return before[sample] - padding[sample];
        const zeros = ragged || part.tokens === "drawn" ? 0 : length - part.tokens.length;
        return part.over?.position ?? part.text.context.position - zeros;
      }),
      padding,
      // Zeros may stand behind the tokens of shorter parts.
      keep: samples === 1 || mostKept === 1 ? mostKept : length,
      hands: parts.find(({ text }) => text.reads !== undefined)?.text.reads,
      ...(only.over && { rows: { start: [only.over.rows.start], valid: [only.over.rows.valid] } }),
    };
    const keptZeros = (part: StepPart): number =>
      ragged && samples > 1 && mostKept > 1 ? length - (part.tokens === "drawn" ? 1 : part.tokens.length) : 0;
    // The row of the logits behind a part's token that comes `fromEnd` before its last, among those that are drawn behind.
    const each = this.checks ? step.keep : 1;
    const rowOf = (part: StepPart, fromEnd: number): number => {
      const { sample } = rowsOf(part.text);
      return (sample + 1) * each - 1 - fromEnd - (each > 1 ? keptZeros(part) : 0);
    };
    const tellsLogits = parts.some(({ wants }) => wants === "logits");
    let results: BegunRuns["results"];
    if (parts.every(({ wants }) => wants !== "token")) {
      const begun = await this.#decoder.start(state, step, tellsLogits);
      results = begun.results.then((logits) => [parts.map((part) => resultOf(part, logits, keptZeros(part)))]);
    } else {
      const from = sourcesOf(lane, own);
      const hostRows = parts.flatMap((part) =>
        part.wants === "logits" ? Array.from({ length: part.keep }, (_, at) => rowOf(part, at)) : [],
      );
      const ask = { drawings: this.#drawingsOf(group, parts, each, rowOf), hostRows, ...(from && { from }) };
      const later = Array.from({ length: count - 1 }, (_, at) => ({
        ...step,
        positions: step.positions.map((position) => position + at + 1),
      }));
      const begun = await group.drawer.begin(state, step, ask, later);
      results = begun.results.then((runs) =>
        runs.map((run) => parts.map((part) => drawnResultOf(part, run, (fromEnd) => rowOf(part, fromEnd)))),
      );
    }
    // Nobody has to wait for them.
    results.catch(() => undefined);
    // What was read behind a text's own tokens is forgotten.
    if (ragged && samples > 1)
      state.rewind(
        before.map((rows, sample) => {
          const tokens = own[sample]?.tokens;
          return rows + (tokens === undefined ? 0 : (tokens === "drawn" ? 1 : tokens.length) + count - 1);
        }),
      );
    // Where guesses are checked, the host knows first which token is the last.
    if (this.draws)
      lane.drawn = new Map(
        parts.flatMap((part) => (part.wants === "token" && part.keep === 1 ? [[part.text, rowOf(part, 0)]] : [])),
      );
    // Guesses may be wrong: nobody comes back to them.
    if (samples === 1 && only.keep === 1 && only.over === undefined)
      only.text.context.mark(length > 1 ? "text" : "token", only.text.context.length + length * count);
    return { results };
  }

  /** How tokens are drawn behind so many rows of each sample; what is drawn for those that take no part nobody reads. */
  #drawingsOf(
    group: LinearGroup,
    parts: readonly StepPart[],
    each: number,
    rowOf: (part: StepPart, fromEnd: number) => number = ({ text }) => rowsOf(text).sample,
  ): readonly OneDrawing[] {
    const drawings = parts.map(drawingsOfPart);
    const usual = drawings.find((own) => own.length > 0)![0];
    const result = Array<OneDrawing>(group.samples * each).fill(usual);
    for (const [at, part] of parts.entries())
      for (const [row, drawing] of drawings[at].entries()) result[rowOf(part, drawings[at].length - 1 - row)] = drawing;
    return result;
  }

  /** What many rows of a prompt have no memory for, fewer may have. */
  readsLess({ parts }: Step, error: unknown): boolean {
    const count = Math.max(...parts.map(({ tokens }) => (tokens === "drawn" ? 1 : tokens.length)));
    const { chunk, longChunk = chunk } = this.#reading;
    const isLarge = error instanceof InsituError && error.code === "out-of-memory" && count >= 2 * leastChunk;
    if (!isLarge || count > Math.max(chunk, longChunk)) return false;
    const most = Math.floor(count / 2);
    this.#reading = { ...this.#reading, chunk: Math.min(chunk, most), longChunk: Math.min(longChunk, most) };
    return true;
  }

  settle(): void {}
}

const rowsOf = (text: EngineText): LinearRows => text.context.rows as LinearRows;

/** The part of each sample of a state. */
const bySample = ({ samples }: LinearGroup, parts: readonly StepPart[]): readonly (StepPart | undefined)[] =>
  samples === 1
    ? parts
    : Array.from({ length: samples }, (_, sample) => parts.find(({ text }) => rowsOf(text).sample === sample));

const paddingOf = (text: EngineText): number => {
  const { group, sample } = rowsOf(text);
  return group.padding[sample];
};

/** So many tokens of a sample: zeros behind its own, or in front of them where all samples have one length. */
function tokensOf(part: StepPart | undefined, length: number, ragged: boolean): readonly number[] {
  const own = part === undefined || part.tokens === "drawn" ? [] : part.tokens;
  if (own.length === length) return own;
  const zeros = Array<number>(length - own.length).fill(0);
  return ragged ? [...own, ...zeros] : [...zeros, ...own];
}

/** For each sample the row of the run before that drew its token; those that do not read go on from their own. Undefined where none was drawn. */
function sourcesOf(lane: Lane, own: readonly (StepPart | undefined)[]): readonly (number | undefined)[] | undefined {
  if (!own.some((part) => part?.tokens === "drawn")) return undefined;
  return own.map((part, sample) => {
    if (part === undefined) return sample;
    return drawnRow(part, lane.drawn);
  });
}

/** What a run that draws told of a part, whose rows are told by how many of its tokens come behind them. */
function drawnResultOf(
  { wants }: StepPart,
  { tokens, logits }: DrawnRun,
  rowOf: (fromEnd: number) => number,
): PartResult {
  if (wants === "token") return { kind: "token", token: tokens[rowOf(0)], before: (fromEnd) => tokens[rowOf(fromEnd)] };
  return wants === "logits" ? { kind: "logits", at: (fromEnd) => logits!.at(0, rowOf(fromEnd)) } : { kind: "nothing" };
}

/** What a run told of a part; `zeros`: rows of logits behind its own. */
function resultOf(part: StepPart, logits: Logits | undefined, zeros: number): PartResult {
  const { sample } = rowsOf(part.text);
  if (part.wants !== "logits") return { kind: "nothing" };
  const { hidden } = logits!;
  return {
    kind: "logits",
    at: (fromEnd) => logits!.at(zeros + fromEnd, sample),
    hidden: hidden && ((fromEnd) => hidden.at(zeros + fromEnd, sample)),
  };
}
