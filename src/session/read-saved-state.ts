/**
 * A saved state, read and checked: nothing is taken over, and next to nothing allocated, before every word of the header has turned out to
 * be what `writeSaved` writes for a state of these caches, of this capacity or of another.
 */
import { InsituError } from "../base/error.js";
import { byteLengthOf, type ElementType } from "../tensor/element-type.js";
import { elementCount, type View, viewOfBytes } from "../tensor/view.js";
import type { Holding } from "./holding.js";
import type { FilledCache } from "./written-rows.js";
import { headerOf, metadataName, padded, readableVersions, storedAs } from "./saved-state.js";

/** A cache as the header describes it: its contents lie from `start` to `end` behind the header. */
interface Described {
  readonly holding: Holding;
  readonly shape: readonly number[];
  readonly start: number;
  readonly end: number;
}

/** Saved contents that fit a state. */
interface Saved {
  readonly lengths: readonly number[];
  /** Rows of each growing cache; undefined for caches of fixed shape. */
  readonly rows: ReadonlyMap<Holding, number | undefined>;
  /** The contents of a cache, aligned for its type. */
  contentsOf(holding: Holding): View;
}

/**
 * Reads saved bytes for a state of these caches and so many samples. Throws `invalid-state`, naming what is wrong, for anything that
 * `writeSaved` would not write for such a state. `bounded` says that lengths are rows that some cache can hold. Takes no more memory than a
 * header of this state does. `filled` are the caches of which there may be fewer rows than this state has room for.
 */
export function readSaved(
  bytes: Uint8Array,
  holdings: readonly Holding[],
  samples: number,
  bounded: boolean,
  filled: ReadonlyMap<string, FilledCache>,
): Saved {
  const own = holdings.map((holding) => ({ holding, place: holding.past }));
  const { header, data } = readHeader(bytes, headerOf(own, new Array<number>(samples).fill(0)).length);
  const { lengths, types } = readMetadata(header);
  if (lengths.length !== samples) refuse(`has ${lengths.length} samples, this one has ${samples}`);
  const known = new Set(holdings.map(({ name }) => name));
  for (const name of [...Object.keys(header), ...Object.keys(types)])
    if (name !== metadataName && !known.has(name)) refuse(`holds "${name}", which is none of ${[...known].join(", ")}`);
  const described = holdings.map((holding) => readEntry(holding, header, types, filled.get(holding.name)));
  checkTiles(described, data.length);
  if (bounded) checkLengths(described, lengths);
  checkRings(described, lengths, filled);
  return {
    lengths,
    rows: new Map(
      described.map(({ holding, shape }) => [holding, holding.grows ? shape[holding.pair.axis!] : undefined]),
    ),
    contentsOf(holding) {
      const { shape, start, end } = described.find((entry) => entry.holding === holding)!;
      return viewOfBytes(holding.type as Exclude<ElementType, "string">, shape, data.subarray(start, end));
    },
  };
}

function refuse(message: string, cause?: unknown): never {
  throw new InsituError("invalid-state", `the saved state ${message}`, { cause });
}

/** Text from a file, short enough for a message. */
const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
};

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** JSON as `JSON.stringify` writes it and in no other form: no name comes twice, no number is spelt otherwise. */
function parse(text: string, what: string): unknown {
  let value: unknown;
  let again: string | undefined;
  try {
    value = JSON.parse(text);
    again = JSON.stringify(value);
  } catch (error) {
    refuse(`has ${what} that is not JSON, or too deep`, error);
  }
  if (again !== text) refuse(`has ${what} that insitu does not write: a name comes twice, or the like`);
  return value;
}

/** The header and what comes behind it. One that is far longer than this state's own is not read. */
function readHeader(bytes: Uint8Array, usual: number): { readonly header: Fields; readonly data: Uint8Array } {
  if (!(bytes instanceof Uint8Array)) return refuse("must be a Uint8Array");
  if (bytes.length < 8) return refuse(`is cut off: it has ${bytes.length} bytes`);
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(bytes.length - 8))
    return refuse(`is cut off: its header needs ${length} bytes, ${bytes.length - 8} are left`);
  const most = 4 * usual + 4096;
  if (length > BigInt(most)) return refuse(`has a header of ${length} bytes, one for this state takes ${most} at most`);
  const end = 8 + Number(length);
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes.subarray(8, end)));
  } catch (error) {
    refuse("has a header that is not UTF-8", error);
  }
  const header = parse(text.replace(/ +$/, ""), "a header");
  if (!isFields(header)) return refuse(`has a header that is no object: ${shown(header)}`);
  if (padded(text.replace(/ +$/, "")) !== text) return refuse("has a header that is not padded to 8 bytes");
  return { header, data: bytes.subarray(end) };
}

/** Lengths, and each cache's own type, from the metadata. */
function readMetadata(header: Fields): { readonly lengths: readonly number[]; readonly types: Fields } {
  const metadata = Object.hasOwn(header, metadataName) ? header[metadataName] : undefined;
  if (!isFields(metadata) || metadata["format"] !== "insitu-state") return refuse("was not written by insitu");
  if (!readableVersions.some((version) => version === metadata["version"]))
    return refuse(
      `has version ${shown(metadata["version"]).replaceAll('"', "")}, this insitu reads ${readableVersions.join(" and ")}`,
    );
  const [lengthText, typeText] = [metadata["lengths"], metadata["types"]];
  if (Object.keys(metadata).length !== 4 || typeof lengthText !== "string" || typeof typeText !== "string")
    return refuse(`has metadata that insitu does not write: ${shown(metadata)}`);
  const lengths = parse(lengthText, "lengths");
  if (!Array.isArray(lengths) || !lengths.every((length) => Number.isSafeInteger(length) && length >= 0))
    return refuse(`has no valid lengths: ${shown(lengths)}`);
  const types = parse(typeText, "types");
  if (!isFields(types)) return refuse(`has no valid types: ${shown(types)}`);
  return { lengths: lengths as number[], types };
}

/** What the file says of a cache, where it fits. */
function readEntry(holding: Holding, header: Fields, types: Fields, fills: FilledCache | undefined): Described {
  const { name, type, buffer, grows, pair } = holding;
  if (type === "string") return refuse(`cannot hold "${name}", which are strings`);
  const entry = Object.hasOwn(header, name) ? header[name] : undefined;
  if (entry === undefined) return refuse(`has no cache "${name}"`);
  const text = Object.hasOwn(types, name) ? types[name] : undefined;
  const match = typeof text === "string" ? /^(\w+)\[((?:\d{1,15}(?:,\d{1,15})*)?)\]$/.exec(text) : null;
  if (match === null) return refuse(`has no valid type for "${name}": ${shown(text)}`);
  const shape = match[2] === "" ? [] : match[2].split(",").map(Number);
  const fits =
    match[1] === type &&
    shape.length === buffer.rank &&
    shape.every((dim, at) => dim === buffer.shape[at] || ((grows || fills !== undefined) && at === pair.axis));
  const rows = fits && fills !== undefined ? shape[fills.axis] : 0;
  if (rows > (holding.capacity ?? rows))
    return refuse(
      `has ${rows} rows for cache "${name}", which has room for ${holding.capacity}: create the state with a capacity of ${rows} or more`,
    );
  if (!fits) return refuse(`has ${shown(text)} for cache "${name}", which is ${buffer}`);
  const wanted = storedAs(type, shape);
  const offsets = isFields(entry) ? entry["data_offsets"] : undefined;
  if (
    !isFields(entry) ||
    Object.keys(entry).length !== 3 ||
    entry["dtype"] !== wanted.dtype ||
    JSON.stringify(entry["shape"]) !== JSON.stringify(wanted.shape)
  )
    return refuse(`has ${shown(entry)} for "${name}", which as ${shown(text)} is ${shown(wanted)}`);
  const [start, end] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
  const size = byteLengthOf(type, elementCount(shape));
  if (!isOffset(start) || !isOffset(end) || end - start !== size)
    return refuse(`has wrong offsets for "${name}": ${shown(offsets)} for ${size} bytes`);
  return { holding, shape, start, end };
}

const isOffset = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Contents follow each other without gap or overlap, and fill the file. */
function checkTiles(described: readonly Described[], size: number): void {
  let at = 0;
  for (const { holding, start, end } of described.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    if (start !== at)
      refuse(`has wrong offsets: "${holding.name}" begins at byte ${start}, what comes before it ends at ${at}`);
    if (end > size) refuse(`is cut off: "${holding.name}" ends at byte ${end} of ${size}`);
    at = end;
  }
  if (at !== size) refuse(`has ${size - at} bytes behind its last cache`);
}

/** Lengths are rows that some cache can hold. */
function checkLengths(described: readonly Described[], lengths: readonly number[]): void {
  const along = described.filter(({ holding }) => holding.pair.axis !== undefined);
  if (along.length === 0) return;
  const most = Math.max(...along.map(({ holding, shape }) => shape[holding.pair.axis!]));
  const sample = lengths.findIndex((length) => length > most);
  if (sample >= 0) refuse(`has ${lengths[sample]} rows for sample ${sample}, its caches hold ${most}`);
}

/** A ring that has come round goes on in one of its own size alone. */
function checkRings(
  described: readonly Described[],
  lengths: readonly number[],
  filled: ReadonlyMap<string, FilledCache>,
): void {
  for (const { holding, shape } of described) {
    const { axis, wraps } = filled.get(holding.name) ?? { axis: 0, wraps: false };
    if (!wraps || shape[axis] === holding.capacity || lengths.every((length) => length <= shape[axis])) continue;
    refuse(
      `has cache "${holding.name}" as a ring of ${shape[axis]} rows that has wrapped around, which one of ${holding.capacity} cannot continue`,
    );
  }
}
