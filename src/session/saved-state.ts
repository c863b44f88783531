/** A state as bytes: safetensors' layout, with lengths and version in its metadata. Written here; read in read-saved-state.ts. */
import { InsituError } from "../base/error.js";
import { byteLengthOf, type ElementType } from "../tensor/element-type.js";
import { bytesIn, elementCount } from "../tensor/view.js";
import type { Holding } from "./holding.js";

/** Written by this version, and the only one it reads. */
export const version = "1";

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

/** What safetensors' own name for metadata leaves no room for. */
export const metadataName = "__metadata__";

/** The caches and lengths as bytes: as they are when this is called. */
export async function writeSaved(holdings: readonly Holding[], lengths: readonly number[]): Promise<Uint8Array> {
  const head = new TextEncoder().encode(headerOf(holdings, lengths));
  const size = holdings.reduce((sum, { type, past }) => sum + byteLengthOf(type, past.size), 0);
  // All are asked for before the first is waited for: no later run comes in between.
  const contents = holdings.map((holding) => holding.read(holding.past));
  const bytes = new Uint8Array(8 + head.length + size);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(head.length), true);
  bytes.set(head, 8);
  let at = 8 + head.length;
  for (const view of contents) {
    const source = bytesIn(await view);
    bytes.set(source, at);
    at += source.length;
  }
  return bytes;
}

/** The header of a file, with spaces up to a multiple of 8 bytes. */
export function headerOf(holdings: readonly Holding[], lengths: readonly number[]): string {
  let end = 0;
  const entries = holdings.map(({ name, type, past }) => {
    if (type === "string") throw new InsituError("invalid-state", `"${name}" holds strings, which cannot be saved`);
    if (name === metadataName)
      throw new InsituError("invalid-state", `"${name}" cannot be saved: safetensors keeps that name for itself`);
    const start = end;
    end += byteLengthOf(type, past.size);
    return [name, { ...storedAs(type, past.shape), data_offsets: [start, end] }] as const;
  });
  const types = Object.fromEntries(holdings.map(({ name, type, past }) => [name, describe(type, past.shape)]));
  const metadata = {
    format: "insitu-state",
    version,
    lengths: JSON.stringify(lengths),
    types: JSON.stringify(types),
  };
  return padded(JSON.stringify(Object.fromEntries([...entries, [metadataName, metadata]])));
}

/** Text with spaces up to a multiple of 8 bytes. */
export const padded = (text: string): string =>
  text + " ".repeat((8 - (new TextEncoder().encode(text).length % 8)) % 8);

const describe = (type: ElementType, shape: readonly number[]): string => `${type}[${shape.join(",")}]`;

/** What safetensors is told: types that it does not know are bytes. */
export const storedAs = (type: ElementType, shape: readonly number[]): { dtype: string; shape: readonly number[] } =>
  dtypes[type] === undefined
    ? { dtype: "U8", shape: [byteLengthOf(type, elementCount(shape))] }
    : { dtype: dtypes[type], shape };
