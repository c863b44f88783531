/** What cannot cross to another thread as it is: errors, functions among options, tensors. Told apart here and put together again. */
import { type BuiltInError, type ErrorCode, InsituError } from "#insitu/base/error.js";
import { checkOptionNames, type OptionNames } from "#insitu/base/option-names.js";
import type { CrossingError, CrossingOptions, CrossingTensor } from "./messages.js";

/** An error as plain data. */
export function errorData(error: unknown): CrossingError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error), code: undefined, stack: undefined };
  const { name, message, stack } = error;
  return { name, message, stack, code: error instanceof InsituError ? error.code : undefined };
}

/** The error again: of insitu's class and code where it was. Its stack is that of the thread it comes from. */
export function errorOf({ name, message, code, stack }: CrossingError): Error {
  const as: BuiltInError | undefined = name === "TypeError" || name === "RangeError" ? name : undefined;
  const error =
    code === undefined
      ? Object.assign(new Error(message), { name })
      : new InsituError(code as ErrorCode, message, as === undefined ? {} : { as });
  if (stack !== undefined) error.stack = stack;
  return error;
}

type Heard = (...values: readonly unknown[]) => void;

const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/** A model, of this thread or of another: what it is made of stays where it is. */
const isModel = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !isPlain(value) && "generate" in value;

/**
 * Options without their functions, and those functions by where they were. What is only told of something (`onProgress`) can be called
 * from afar; any other function is refused, since it would have to run in the thread. Names are checked by `names`, or by the thread.
 */
export function splitOptions<T extends object>(
  what: string,
  options: T | undefined,
  names?: OptionNames<T>,
): { readonly options: CrossingOptions; readonly listeners: ReadonlyMap<string, Heard> } {
  const listeners = new Map<string, Heard>();
  const walk = (given: Readonly<Record<string, unknown>>, before: string): Record<string, unknown> => {
    const plain: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(given)) {
      const path = before + name;
      if (isModel(value))
        throw new InsituError(
          "invalid-argument",
          `${what}: ${path} is a model, and a model does not cross to another's worker; import from "insitu" in a worker of your own to use both there`,
        );
      if (typeof value !== "function") plain[name] = isPlain(value) ? walk(value, `${path}.`) : value;
      else if (/^on[A-Z]/.test(name)) listeners.set(path, value as Heard);
      else
        throw new InsituError(
          "invalid-argument",
          `${what}: ${path} is a function, and functions do not cross to a worker; import from "insitu" in a worker of your own to use it`,
        );
    }
    return plain;
  };
  if (options !== undefined && options !== null && !isPlain(options))
    throw new InsituError("invalid-argument", `${what} must be a plain object`, { as: "TypeError" });
  if (names !== undefined) checkOptionNames(what, withoutNull(options ?? {}), names);
  const plain = walk(options ?? {}, "");
  return { options: { plain, heard: [...listeners.keys()] }, listeners };
}

const withoutNull = (options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null));

/** The options again, with functions that tell of their calls. */
export function joinOptions(
  { plain, heard }: CrossingOptions,
  tell: (name: string, values: readonly unknown[]) => void,
): object {
  const joined = structuredClone(plain) as Record<string, unknown>;
  for (const path of heard) {
    const names = path.split(".");
    const last = names.pop()!;
    let place = joined;
    for (const name of names) place = place[name] as Record<string, unknown>;
    place[last] = (...values: readonly unknown[]): void => tell(path, values);
  }
  return joined;
}

/** A tensor's own elements and nothing of the memory around them; `transfer` gets what may move instead of being copied. */
export function tensorData(
  { type, data, dims }: CrossingTensor,
  isOwn: boolean,
  transfer: ArrayBufferLike[],
): CrossingTensor {
  if (!ArrayBuffer.isView(data)) return { type, data: [...data], dims: [...dims] };
  const { buffer, byteOffset, byteLength } = data;
  const whole = isOwn && buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  const own = whole ? data : viewOf(data, buffer.slice(byteOffset, byteOffset + byteLength));
  if (own.buffer instanceof ArrayBuffer) transfer.push(own.buffer);
  return { type, data: own, dims: [...dims] };
}

/** A view of another memory with the type of a view. */
function viewOf(view: ArrayBufferView, memory: ArrayBufferLike): ArrayBufferView {
  const { constructor } = view as { constructor: unknown };
  return new (constructor as new (buffer: ArrayBufferLike) => ArrayBufferView)(memory);
}
