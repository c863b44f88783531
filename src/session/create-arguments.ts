/** The arguments of `InferenceSession.create` in all of onnxruntime's forms, read into one: a source and its options. Loads nothing. */
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { ModelSource } from "./load.js";
import { type SessionOptions, sessionOptionsOf } from "./options.js";

/** The model and the options of a call. */
export function readCreateArguments(
  source: ModelSource,
  [first, length, last]: readonly unknown[],
): { readonly source: ModelSource; readonly options: SessionOptions } {
  if (source === undefined)
    throw new InsituError(
      "invalid-argument",
      "argument[0] of create must be a model: a path, a URL, a Uint8Array or an ArrayBuffer with its bytes, got undefined",
      { as: "TypeError" },
    );
  if (typeof first !== "number" || !isBuffer(source)) return { source, options: sessionOptionsOf(first) };
  const { byteLength } = source;
  if (!Number.isSafeInteger(first) || first < 0 || first >= byteLength)
    throw outOfRange("byteOffset", `a whole number from 0 to ${byteLength - 1}`, first);
  if (length === undefined) return { source: new Uint8Array(source, first), options: sessionOptionsOf(last) };
  if (!Number.isSafeInteger(length) || (length as number) <= 0 || first + (length as number) > byteLength)
    throw outOfRange("byteLength", `a whole number from 1 to ${byteLength - first}`, length);
  return { source: new Uint8Array(source, first, length as number), options: sessionOptionsOf(last) };
}

/** Of any realm, of which `instanceof` knows nothing. */
const isBuffer = (source: ModelSource): source is ArrayBufferLike =>
  /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(source));

const outOfRange = (name: string, rule: string, given: unknown): InsituError =>
  new InsituError("invalid-argument", `'${name}' of a model's buffer must be ${rule}, got ${valueText(given)}`, {
    as: typeof given === "number" ? "RangeError" : "TypeError",
  });
