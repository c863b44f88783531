/** What a caller hands in to load a model: its options and its source, checked before anything is done with them. */
import { checkCallback, objectOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";

/** A weight file that the caller gives: its bytes, or a path or URL to open. */
export interface ExternalData {
  /** The location as the model names it. */
  readonly path: string;
  readonly data: Uint8Array | ArrayBufferLike | string;
}

/** Where weights come from. */
export interface WeightOptions {
  /**
   * Files with weights, given by the caller: `{ path, data }`, or a path. They are used before those next to the model.
   * @default the files that the model names
   */
  readonly externalData?: readonly (ExternalData | string)[] | undefined;
}

/** How to load. */
export interface LoadOptions extends WeightOptions {
  /** Called as bytes arrive, from 0 to the total. `total` grows once if the weights are in other files than the model. */
  readonly onProgress?: ((loaded: number, total: number) => void) | undefined;
}

/** Their names. */
export const loadOptionNames: OptionNames<LoadOptions> = { externalData: true, onProgress: true };

const refuse = (message: string): never => {
  throw new InsituError("invalid-argument", message);
};

/** Throws `invalid-argument` for options that are not what they should be, naming the one. */
export function checkLoadOptions(options: { readonly [name in keyof LoadOptions]: unknown } | undefined): void {
  const { onProgress, externalData } = objectOf("options", options);
  checkCallback("option onProgress", onProgress);
  const given: unknown = externalData;
  if (given === undefined) return;
  if (!Array.isArray(given)) return refuse(`option externalData must be a list of files, got ${valueText(given)}`);
  // A loop that also meets the holes of a list.
  for (let at = 0; at < given.length; at++) checkExternalData(given[at], `externalData[${at}]`);
}

function checkExternalData(entry: unknown, what: string): void {
  if (typeof entry === "string") return;
  if (typeof entry !== "object" || entry === null)
    return refuse(`${what} must be a path or { path, data }, got ${valueText(entry)}`);
  let path: unknown;
  let data: unknown;
  try {
    ({ path, data } = entry as { readonly path?: unknown; readonly data?: unknown });
  } catch {
    // Getters may throw anything.
    return refuse(`${what} must be a path or { path, data }, got ${valueText(entry)}`);
  }
  if (typeof path !== "string")
    return refuse(`${what}.path must be the location that the model names, got ${valueText(path)}`);
  if (typeof data !== "string" && bytesIn(data) === undefined)
    refuse(`${what}.data must be a path, a URL, a Uint8Array or an ArrayBuffer with its bytes, got ${valueText(data)}`);
}

/** The bytes of a model that was given in memory. */
export const bytesOf = (source: unknown): Uint8Array =>
  bytesIn(source) ??
  refuse(`a model is a path, a URL, a Uint8Array or an ArrayBuffer with its bytes, got ${valueText(source)}`);

/** The bytes of an array or a buffer of any realm; undefined for everything else, and for what was transferred away. */
export function bytesIn(source: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(source))
    return bytesIn(source.buffer) && new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const kind = classOf(source);
  if (kind !== "ArrayBuffer" && kind !== "SharedArrayBuffer") return undefined;
  try {
    return new Uint8Array(source as ArrayBufferLike);
  } catch {
    return undefined;
  }
}

/** `ArrayBuffer`, `Map`, `Object`: also for objects of another realm, of which `instanceof` knows nothing. */
function classOf(value: unknown): string {
  try {
    return Object.prototype.toString.call(value).slice(8, -1);
  } catch {
    return "Object"; // one whose own answer throws
  }
}
