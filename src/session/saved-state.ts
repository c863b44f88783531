/**
 * A state as bytes: safetensors' layout, with lengths and version in its metadata. Written here; read in read-saved-state.ts. Version 1 had
 * every cache in its capacity, which a file of version 2 may have too.
 */
import { InsituError } from "../base/error.js";
import { byteLengthOf, type ElementType } from "../tensor/element-type.js";
import { bytesIn, elementCount } from "../tensor/view.js";
import type { Placed } from "../tensor/placed.js";
import type { Holding } from "./holding.js";

/** Written by this version of insitu. */
const version = "2";

/** Read by it. */
export const readableVersions: readonly string[] = ["1", version];

/** A cache, and the part of it that is saved. */
interface SavedCache {
  readonly holding: Holding;
  readonly place: Placed;
}

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
export async function writeSaved(caches: readonly SavedCache[], lengths: readonly number[]): Promise<Uint8Array> {
  const head = new TextEncoder().encode(headerOf(caches, lengths));
  const size = caches.reduce((sum, { place }) => sum + byteLengthOf(place.type, place.size), 0);
  // All are asked for before the first is waited for: no later run comes in between.
  const contents = caches.map(({ holding, place }) => holding.read(place));
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
export function headerOf(caches: readonly SavedCache[], lengths: readonly number[]): string {
  let end = 0;
  const entries = caches.map(({ holding: { name, type }, place }) => {
    if (type === "string") throw new InsituError("invalid-state", `"${name}" holds strings, which cannot be saved`);
    if (name === metadataName)
      throw new InsituError("invalid-state", `"${name}" cannot be saved: safetensors keeps that name for itself`);
    const start = end;
    end += byteLengthOf(type, place.size);
    return [name, { ...storedAs(type, place.shape), data_offsets: [start, end] }] as const;
  });
  const types = Object.fromEntries(
    caches.map(({ holding: { name, type }, place }) => [name, describe(type, place.shape)]),
  );
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
