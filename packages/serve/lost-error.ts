/** The error of texts whose model was lost under them: with its device, or by a run that failed while it wrote the pages that all share. */
import { InsituError } from "#insitu/base/error.js";

/** What is told of a loss: the way out of the runtime's own sentence is the server's to go. */
export class LostError extends InsituError {
  constructor(cause: Error) {
    const isDevice = cause instanceof InsituError && cause.code === "device-lost";
    const what = isDevice ? "the server's GPU was lost" : "a run failed, and what the server had read was lost";
    super(isDevice ? "device-lost" : "state-lost", `${what}, and this completion with it: try again in a while`, {
      cause,
    });
  }
}

/** True for an error after which nothing can be read from pages any more. */
export const isLoss = (error: unknown): error is InsituError =>
  error instanceof InsituError && (error.code === "device-lost" || error.code === "state-lost");

/** What is told of an error; who holds the blocks of a full pool is for the server's log alone. */
export function toldError(error: Error): Error {
  if (isLoss(error)) return error instanceof LostError ? error : new LostError(error);
  if (!(error instanceof InsituError) || error.code !== "out-of-memory") return error;
  const message =
    "the server has no room left for this completion: try again, ask for less, or serve with more --blocks";
  return new InsituError("out-of-memory", message, { cause: error });
}
