/** Whether rows may be taken out from between: what a model decides by a row's number must hold for the rows that stay. Moves nothing. */
import { InsituError } from "../base/error.js";
import type { RowRules } from "../session/row-rules.js";
import type { Session } from "../session/session.js";
import { type DecoderInput, isOfPages } from "../decoder/decoder-inputs.js";

/** What a model asks of rows that stay when others go. */
export class RowChecks {
  readonly #rules: RowRules;
  readonly #has: (name: DecoderInput) => boolean;
  readonly #onPages: boolean;

  constructor(session: Session) {
    this.#rules = session.rowRules;
    this.#has = (name) => session.inputNames.includes(name);
    this.#onPages = session.inputNames.some(isOfPages);
  }

  /** Throws for a model that counts positions by rows: once rows are gone, it would turn keys and queries wrongly, or mask wrong rows. */
  requirePositions(what: string): void {
    // Linear caches need write_indices to write by; on pages a model that still has them counts by them.
    const counts = this.#onPages && this.#has("write_indices");
    if (!this.#has("position_ids") || counts)
      throw new InsituError(
        "invalid-argument",
        `${what}: the model takes positions from the number of rows, not from position_ids alone: its rows cannot be evicted`,
      );
    const { masked } = this.#rules;
    if (masked !== undefined || this.#has("attention_mask"))
      throw new InsituError(
        "invalid-argument",
        `${what}: ${masked === undefined ? "the model" : `"${masked}"`} reads a mask with a column for each row: its rows cannot be evicted; on pages windows are no masks`,
      );
  }

  /**
   * Throws for rows that a window would count wrongly: it shows as many of the latest rows as it is wide, so that these must be the
   * latest positions, or all there are. `next` is the position of the next token.
   */
  requireWindow(rows: number, positionOf: (row: number) => number, next: number, what: string): void {
    const { window } = this.#rules;
    if (window === undefined) return;
    const seen = Math.min(rows, window - 1);
    if (seen > 0 && positionOf(rows - seen) !== next - seen)
      throw new InsituError(
        "invalid-argument",
        `${what}: the model's attention has a window of ${window} rows, and a gap among the latest ${seen} would let it see rows that are further back; keep at least the latest ${window - 1} positions`,
      );
  }
}
