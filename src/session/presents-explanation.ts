/** What becomes of presents in runs without a state, told to people and to tools. Decides nothing. */

/** How runs went so far. */
export interface PresentsStatistics {
  /** Runs that went on in place. */
  continued: number;
  /** Runs that began with empty pasts. */
  started: number;
  /** Runs that went on from rows which others still need: those were copied. */
  forked: number;
  /** Runs whose pasts were tensors of the caller's: those were copied. */
  imported: number;
  /** Runs that copied pasts and presents, as the model says. */
  copied: number;
  /** Texts that were left alone for others, and whose rows were brought to the host. */
  spilled: number;
  /** Bytes that forks, imports and caches that had to grow moved. */
  movedBytes: number;
  /** Bytes of the caches that presents show now. */
  heldBytes: number;
}

/** Presents that stay inside, as far as they are told of. */
interface ToldPresents {
  readonly statistics: Readonly<PresentsStatistics>;
  /** The inputs that the last run in place brought to the backend's memory. */
  readonly brought: readonly string[];
}

/** What becomes of presents in runs without a state, for tools: kept inside, with how such runs went; or copied, and why. */
export type PresentsExplanation =
  | {
      readonly kept: true;
      readonly runs: Readonly<PresentsStatistics>;
      /** The inputs that each run in place brings to the backend's memory. */
      readonly brought: readonly string[];
    }
  | { readonly kept: false; readonly why: string };

/** The same of a session's presents, or of the reason why they are copied. */
export const presentsJson = (presents: ToldPresents | string): PresentsExplanation =>
  typeof presents === "string"
    ? { kept: false, why: presents }
    : { kept: true, runs: { ...presents.statistics }, brought: presents.brought };

/** The same as text. */
export function presentsText(presents: ToldPresents | string): readonly string[] {
  if (typeof presents === "string") return [`copied: ${presents}`];
  const { continued, started, forked, imported, copied, spilled, movedBytes, heldBytes } = presents.statistics;
  return [
    `kept inside, and written in place where they are fed back as they came; presents: "copy" turns it off`,
    `runs so far: ${started} began, ${continued} went on in place, ${forked} forked, ${imported} from pasts that were given, ${copied} copied; ${spilled} texts left for others; ${movedBytes} bytes moved, ${heldBytes} held now`,
  ];
}
