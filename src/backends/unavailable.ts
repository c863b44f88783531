/** What a backend throws where the place it runs in does not have what it needs: not the caller's mistake, and there may be a next best choice. */
import { type ErrorCode, InsituError } from "../base/error.js";

/** A backend, or its threads, cannot be had here. */
export class Unavailable extends InsituError {
  /** What to go without. */
  readonly what: "threads" | "backend";

  constructor(what: "threads" | "backend", code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(code, message, options);
    this.what = what;
  }
}
