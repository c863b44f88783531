/** Numbers of guesses: how many are tried, and what is remembered of them. Each row says its unit, what it trades, and where it was found. */

/** Guesses of a draft model. */
export const guessing = {
  /** Tokens that a draft is asked for at most where nobody says: with the token before them they are rows whose check reads each weight once. */
  most: 7,
  /** The share of guesses that is taken to be right before any was checked, and how many trials that stands for: a draft that fails is found out in few steps. */
  firstShare: 0.7,
  firstTrials: 4,
  /** Trials that what is known of other texts stands for at most where a text begins: more leave a text alone that is unlike them, fewer judge each by few. Not measured. */
  mostTrials: 12,
  /** What is left of a trial from one to the next. */
  memory: 0.95,
  /** What a new duration counts in those that are known: a shorter one, and a longer one, which is taken to be so many times as long at most. */
  quickShare: 0.5,
  slowShare: 0.05,
  outlier: 1.5,
  /** Steps of each size that are not measured: programs are made for it, and compiled as they run. The first of seven tokens took 190 ms where the next took 3. */
  firstSteps: 2,
  /** Steps without guesses that are measured before the first guess. */
  leastSteps: 3,
  /** Steps that follow such a one on a device, begun ahead: fewer are slower than those without a draft, of which they tell. Not measured. */
  freeSteps: 3,
  /** Of so many steps one has no guesses: what they save is known by it. */
  mostRow: 16,
  /** How many times more tokens a second guesses must promise: durations are uncertain. */
  margin: 1.03,
  /** Tokens without guesses before it is tried again, and how many at most: each time twice as many. */
  firstRest: 32,
  mostRest: 4096,
  /** Tokens that are guessed then at least. */
  probe: 2,
  /** How often in a row it is tried: first a draft reads what was made without it, and only what comes then tells what a guess costs. */
  trials: 2,
  /** The share of time that may be lost by that. */
  mostLost: 0.02,
  /** Steps of more tokens for each text than this read prompts, and say nothing of what guesses cost. */
  mostRows: 16,
} as const;
