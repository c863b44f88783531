/** The one error class that insitu throws for anything a caller, a file or a model did wrong. Imports nothing. */

/** Stable names for what went wrong; messages may change, codes do not. */
export type ErrorCode =
  | "invalid-model" // the bytes are not an ONNX model, or are cut off
  | "invalid-graph" // a name, an order, an arity or an attribute breaks ONNX's rules
  | "unsupported-operator" // no declaration for this operator in this opset
  | "unsupported-opset" // an opset newer than the newest known
  | "unsupported-type" // a value kind that insitu does not carry (sequence, optional, map, sparse)
  | "external-data" // a weight file is missing, too short or outside the model's folder
  | "type-mismatch" // an element type that the declaration does not allow
  | "shape-mismatch" // ranks or dimensions that do not fit together
  | "invalid-argument" // a value (index, axis, attribute, option) outside its range
  | "invalid-feed" // an input that is missing, unknown or held elsewhere
  | "out-of-memory" // more elements than can be addressed or allocated
  | "not-in-place" // a cache that must be updated in place cannot be
  | "invalid-state" // a state of another model, of other shapes, in use, or a saved one that cannot be read
  | "state-lost" // a run failed while it wrote a state's caches, and what they held cannot be told any more
  | "download" // a model cannot be fetched, or what was fetched is damaged
  | "context-full" // a prompt or text is longer than the context
  | "unfinished" // an object whose text was cut before it was whole
  | "invalid-value" // an object that its schema's own rules do not take
  | "context-overflow" // a prompt that a server is asked for does not fit its context
  | "queue-full" // a server has as many texts waiting as it takes; `retryAfterSeconds` says when to ask again
  | "closed" // a server that takes nothing in any more: it drains, or was closed
  | "released" // the session was released
  | "device-lost" // a GPU went away, and all that lay on it
  | "thread-lost" // a thread ended, or stopped answering, in the middle of a run
  | "internal"; // insitu's own mistake

/** JavaScript's own classes of errors that an error of insitu's may be as well. */
export type BuiltInError = "TypeError" | "RangeError";

/** The page that has an entry for each code. */
const troubleshooting = "https://github.com/insitu-runtime/insitu/blob/main/docs/troubleshooting.md#";

/** Every error of insitu's: those that are a built-in class as well inherit from that one. */
const made = new WeakSet<object>();

/** An error with a stable `code` and a message that names the thing, the rule and the value. */
export class InsituError extends Error {
  /** "InsituError"; or "TypeError" or "RangeError" where onnxruntime throws one. */
  override readonly name: string;
  /** What went wrong, for programs: it stays the same when the words change. */
  readonly code: ErrorCode;
  /** A link to the page that explains the code, with what to do. */
  readonly help: string;

  /** Makes an error. With `as` it is also a TypeError or RangeError, where onnxruntime throws one. */
  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown; readonly as?: BuiltInError }) {
    super(code === "internal" && !message.startsWith("internal:") ? `internal: ${message}` : message, options);
    this.code = code;
    this.help = troubleshooting + code;
    made.add(this);
    const as = options?.as;
    this.name = as ?? "InsituError";
    if (as !== undefined) Object.setPrototypeOf(this, as === "TypeError" ? typeErrors : rangeErrors);
  }

  /** True for every error of insitu, also for those that are a TypeError or RangeError. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return this === InsituError
      ? typeof value === "object" && value !== null && made.has(value)
      : Function.prototype[Symbol.hasInstance].call(this, value);
  }
}

/** What errors of insitu's inherit from that are a built-in class as well. */
const inheriting = (prototype: Error): Error =>
  Object.create(prototype, { constructor: { value: InsituError } }) as Error;
const typeErrors = inheriting(TypeError.prototype);
const rangeErrors = inheriting(RangeError.prototype);

/** Throws an `internal:` error: for states that only a bug of insitu can reach. */
export function unreachable(message: string): never {
  throw new InsituError("internal", message);
}
