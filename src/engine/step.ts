/**
 * The words of a step: one run of the model reads tokens of any number of texts, and something is wanted after the last token of each. Reading a prompt,
 * drawing a token, checking guesses and embedding are parts of steps; nobody else drives a decoder.
 */
import type { InsituError } from "../base/error.js";
import type { OneDrawing } from "../decoder/token-drawer.js";
import type { SlidingRead } from "./context.js";
import type { Lane } from "./lane.js";
import type { EngineText } from "./text.js";

/** What is wanted after a part's last token: logits come to the host, a token is drawn where the model runs, hidden states are added up. */
export type Want = "nothing" | "logits" | "token" | "hidden";

/** One text's part of a step. */
export interface StepPart {
  readonly text: EngineText;
  /** What is read; "drawn": the token that the step before drew, whatever it is. */
  readonly tokens: readonly number[] | "drawn";
  readonly wants: Want;
  /** The last tokens behind which logits or tokens are wanted. */
  readonly keep: number;
  /** Where it is read over old rows: which ones. */
  readonly over?: SlidingRead;
}

/** How a token is drawn behind each of a part's last tokens that it wants one behind, the first first. */
export function drawingsOfPart({ text, wants, keep }: StepPart): readonly OneDrawing[] {
  const { drawing } = text;
  if (wants !== "token" || drawing === undefined) return [];
  return Array.from({ length: keep }, (_, at) => ({ ...drawing, counter: drawing.counter + at }));
}

/** The row of the step before that drew a part's token; undefined where the host knows what it reads. */
export const drawnRow = ({ text, tokens }: StepPart, drawn: Lane["drawn"]): number | undefined =>
  tokens === "drawn" ? drawn.get(text) : undefined;

/** True for a part of one token that the step before drew, or that the host knows: a series may begin with it. */
export function isOneToken({ text, tokens, over }: StepPart, drawn: Lane["drawn"]): boolean {
  return over === undefined && (tokens === "drawn" ? drawn.has(text) : tokens.length === 1);
}

/** The parts of one run, and the lane whose caches it is on. */
export interface Step {
  readonly lane: Lane;
  readonly parts: readonly StepPart[];
}

/** What came of a part. */
export type PartResult =
  | { readonly kind: "nothing" }
  /** The logits after the token that comes `fromEnd` tokens before the part's last, and the row of what the text reads beside them. */
  | {
      readonly kind: "logits";
      readonly at: (fromEnd: number) => Float32Array;
      readonly hidden?: ((fromEnd: number) => Float32Array) | undefined;
    }
  /** The token behind the part's last, and, where several are wanted, that behind the one `fromEnd` tokens before. */
  | { readonly kind: "token"; readonly token: number; readonly before?: ((fromEnd: number) => number) | undefined }
  | { readonly kind: "hidden"; readonly sums: Float64Array }
  /** It could not be read: the others of the step were. */
  | { readonly kind: "failed"; readonly error: unknown };

/** What comes of runs that were begun. */
export interface BegunRuns {
  /** What came of each part, run by run. Rejects where one failed after it was begun. */
  readonly results: Promise<readonly (readonly PartResult[])[]>;
}

/** Steps that were begun, one after the other, with the same parts, which have one token each where there are several: all but the first read what the one before drew. */
export interface BegunStep extends Step, BegunRuns {
  readonly count: number;
  /** When they were begun, in milliseconds. */
  readonly since: number;
}

/** A text that cannot go on, and why. */
export interface TextFailure {
  readonly text: EngineText;
  readonly error: unknown;
}

/** The next steps, one a lane; none where nothing can be read. */
export interface StepPlan {
  readonly steps: readonly Step[];
  readonly failed: readonly TextFailure[];
  /** A text that is ready and has no room, though no other has any that it could wait for. */
  readonly stuck?: { readonly text: EngineText; readonly error: () => InsituError } | undefined;
}

/** How texts lie in the caches, and what follows from that for steps: who reads next, and how a step is run. */
export interface Layout {
  /** True if tokens can be drawn where the model runs. */
  readonly draws: boolean;
  /** True if they can be drawn behind each of several tokens of one text: guesses are checked there. */
  readonly checks: boolean;
  /** True if what was begun goes on by itself: more can be begun before it has come to the host. */
  readonly goesAhead: boolean;
  /** A text takes part from now on, until it is removed. */
  add(text: EngineText): void;
  remove(text: EngineText): void;
  laneOf(text: EngineText): Lane;
  /** What the next steps read of texts that are ready. */
  plan(isReady: (text: EngineText) => boolean): StepPlan;
  /** True if so many steps of the same parts may be begun at once. */
  mayRepeat(step: Step, count: number): boolean;
  /** Begins a step, `count` times. Rejects where it is refused: nothing was written then. */
  begin(step: Step, count: number): Promise<BegunRuns>;
  /** True where a step that was refused is to be planned anew, since less is read at once from now on. */
  readsLess?(step: Step, error: unknown): boolean;
  /** Notes what became of a planned step: it was begun, or not. */
  settle(step: Step, isBegun: boolean): void;
  /** Notes the milliseconds that a step took which has landed. */
  took?(step: BegunStep, milliseconds: number): void;
}
