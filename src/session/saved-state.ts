/** A state as bytes: safetensors' layout, with lengths and version in its metadata. Reads and checks before anything is taken over. */
import { InsituError } from "../base/error.js";
import { copyView } from "../tensor/copy.js";
import {
  arrayConstructorOf,
  byteLengthOf,
  type ElementType,
  isElementType,
  storageLengthOf,
} from "../tensor/element-type.js";
import { elementCount, View } from "../tensor/view.js";
import type { Holding } from "./holding.js";

/** Written by this version, and the only one it reads. */
const version = "1";

/** safetensors' names; types it has none for travel as bytes, with their own name in the metadata. */
const dtypes: Readonly<Partial<Record<ElementType, string>>> = {
  float64: "F64",
  float32: "F32",
  float16: "F16",
  bfloat16: "BF16",
  float8e4m3fn: "F8_E4M3",
  float8e5m2: "F8_E5M2",
  int64: "I64",
  int32: "I32",
  int16: "I16",
  int8: "I8",
  uint64: "U64",
  uint32: "U32",
  uint16: "U16",
  uint8: "U8",
  bool: "BOOL",
};

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** The caches and lengths as bytes. */
export function writeSaved(holdings: readonly Holding[], lengths: readonly number[]): Uint8Array {
  const header: Record<string, unknown> = {};
  const types: Record<string, string> = {};
  let end = 0;
  for (const { name, type, past } of holdings) {
    if (type === "string") throw new InsituError("invalid-state", `"${name}" holds strings, which cannot be saved`);
    const bytes = byteLengthOf(type, past.size);
    header[name] = {
      dtype: dtypes[type] ?? "U8",
      shape: dtypes[type] === undefined ? [bytes] : past.shape,
      data_offsets: [end, end + bytes],
    };
    types[name] = `${type}[${past.shape.join(",")}]`;
    end += bytes;
  }
  header["__metadata__"] = {
    format: "insitu-state",
    version,
    lengths: JSON.stringify(lengths),
    types: JSON.stringify(types),
  };
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (new TextEncoder().encode(text).length % 8)) % 8);
  const head = new TextEncoder().encode(text);
  const bytes = new Uint8Array(8 + head.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(head.length), true);
  bytes.set(head, 8);
  let at = 8 + head.length;
  for (const { type, past } of holdings) {
    const plain = View.allocate(type, past.shape);
    copyView(past, plain);
    const source = plain.data as Exclude<View["data"], string[]>;
    bytes.set(new Uint8Array(source.buffer, source.byteOffset, source.byteLength), at);
    at += source.byteLength;
  }
  return bytes;
}

/** Reads saved bytes; throws `invalid-state` for anything that `writeSaved` did not write whole. */
export function readSaved(bytes: Uint8Array): {
  readonly tensors: ReadonlyMap<string, View>;
  readonly lengths: number[];
} {
  const refuse = (message: string, cause?: unknown): never => {
    throw new InsituError("invalid-state", `the saved state ${message}`, { cause });
  };
  if (!(bytes instanceof Uint8Array)) return refuse("must be a Uint8Array");
  if (bytes.length < 8) return refuse(`is cut off: it has ${bytes.length} bytes`);
  const headLength = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  if (headLength > bytes.length - 8)
    return refuse(`is cut off: its header needs ${headLength} bytes, ${bytes.length - 8} are left`);
  let header: Record<string, unknown>;
  let lengths: unknown;
  let types: Record<string, string>;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.slice(8, 8 + headLength))) as Record<string, unknown>;
    const metadata = (header["__metadata__"] ?? {}) as Record<string, string>;
    if (metadata["format"] !== "insitu-state") return refuse("was not written by insitu");
    if (metadata["version"] !== version)
      return refuse(`has version ${metadata["version"]}, this insitu reads ${version}`);
    lengths = JSON.parse(metadata["lengths"]);
    types = JSON.parse(metadata["types"]) as Record<string, string>;
  } catch (error) {
    if (error instanceof InsituError) throw error;
    return refuse("has a header that is not JSON", error);
  }
  if (!Array.isArray(lengths) || !lengths.every((length) => Number.isSafeInteger(length) && length >= 0))
    return refuse("has no valid lengths");
  const tensors = new Map<string, View>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    tensors.set(name, readEntry(name, entry as Entry, types[name] ?? "", bytes.subarray(8 + headLength), refuse));
  }
  return { tensors, lengths: lengths as number[] };
}

function readEntry(
  name: string,
  entry: Entry,
  described: string,
  data: Uint8Array,
  refuse: (message: string) => never,
): View {
  const match = /^(\w+)\[([\d,]*)\]$/.exec(described);
  const type = match?.[1] ?? "";
  if (match === null || !isElementType(type) || type === "string") return refuse(`has no valid type for "${name}"`);
  const shape = match[2] === "" ? [] : match[2].split(",").map(Number);
  const count = elementCount(shape);
  const [start, end] = Array.isArray(entry.data_offsets) ? entry.data_offsets : [0, -1];
  if (!(Number.isSafeInteger(start) && start >= 0 && end - start === byteLengthOf(type, count)))
    return refuse(`has wrong offsets for "${name}"`);
  if (end > data.length) return refuse(`is cut off: "${name}" ends at byte ${end} of ${data.length}`);
  // A buffer of its own, aligned for every type; a Buffer's slice would share the old one.
  const copy = new Uint8Array(data.subarray(start, end));
  return new View(type, shape, new (arrayConstructorOf(type))(copy.buffer, 0, storageLengthOf(type, count)));
}
