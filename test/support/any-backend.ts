/** Options of sessions whose backends are those of a test, which users' types do not know. */
import type { SessionOptions } from "../../src/session/options.js";

/** A session's options with a backend of any name. */
export interface AnyBackend extends Omit<SessionOptions, "backend"> {
  readonly backend?: string;
}
