/**
 * The files that a model's weights lie in: by which names they are found, whether what is there can be what is meant, and whether it is long enough for
 * what the model asks of it. Reads no weight.
 */
import { InsituError } from "../base/error.js";
import { foreignFile, isWebPage } from "../base/foreign-file.js";
import { mostOverlap } from "../base/limits.js";
import type { Files, ReadableFile } from "../base/platform.js";
import { byteLengthOf, type ElementType } from "../tensor/element-type.js";
import { elementCount, largestByteLength } from "../tensor/view.js";
import { inside } from "./graph-only.js";
import { bytesIn, type ExternalData, type LoadOptions } from "./load-options.js";
import { mapTensors } from "./map-tensors.js";
import type { Model, ModelTensor } from "./model.js";
import { quote } from "./read-basics.js";

/** A tensor whose elements lie in a file. */
export type ExternalTensor = ModelTensor & {
  readonly external: NonNullable<ModelTensor["external"]>;
  readonly type: Exclude<ElementType, "string">;
};

/** Bytes from which a file is not looked at: what servers send in place of one is shorter. */
const mostForeignBytes = 1 << 16;

const fail = (tensor: ExternalTensor, message: string, cause?: unknown): never => {
  const { location } = tensor.external;
  const where = location === inside ? "its data in the model's file" : `external data ${quote(location)}`;
  throw new InsituError("external-data", `tensor ${quote(tensor.name)}: ${where} ${message}`, { cause });
};

/** A weight file: the caller's bytes or a file, and the tensors that lie in it in their order. */
export interface WeightFile {
  /** Without those that stay where they are. */
  tensors: readonly ExternalTensor[];
  readonly bytes: Uint8Array | undefined;
  readonly open: () => Promise<ReadableFile>;
  /** Opened already. */
  file?: ReadableFile;
}

/** What is said of a tensor that cannot be read. */
export const unreadable =
  (tensor: ExternalTensor) =>
  (error: unknown): never =>
    fail(tensor, `cannot be read: ${error instanceof Error ? error.message : String(error)}`, error);

/** The files that a model's tensors lie in. */
export function weightFiles(model: Model, platform: Files | undefined, options: LoadOptions): WeightFile[] {
  const byLocation = new Map<string, ExternalTensor[]>();
  mapTensors(model, (tensor) => {
    if (tensor.external === undefined || tensor.data !== undefined || tensor.type === "string") return tensor;
    const external = tensor as ExternalTensor;
    const location = plainLocation(external.external.location);
    const others = byLocation.get(location);
    if (others === undefined) byLocation.set(location, [external]);
    else others.push(external);
    return tensor;
  });
  return [...byLocation].map(([location, tensors]) => {
    const given = findGiven(location, options.externalData ?? []);
    const path = typeof given === "string" ? given : undefined;
    return {
      tensors: tensors.toSorted((a, b) => a.external.offset - b.external.offset),
      bytes: typeof given === "string" ? undefined : given,
      open: () => openFile(model, platform, location, path, tensors[0]),
    };
  });
}

/** A location without `.` and empty segments, so that spellings of one file meet. What the platform will refuse stays as it is. */
const plainLocation = (location: string): string =>
  /^\/|:|\\|(^|\/)\.?$|(^|\/)\.\.(\/|$)/.test(location)
    ? location
    : location
        .split("/")
        .filter((segment) => segment !== "" && segment !== ".")
        .join("/");

function findGiven(location: string, given: readonly (ExternalData | string)[]): Uint8Array | string | undefined {
  for (const entry of given) {
    const { path, data } = typeof entry === "string" ? { path: entry, data: entry } : entry;
    if (plainLocation(path) !== location) continue;
    return typeof data === "string" ? data : bytesIn(data);
  }
  return undefined;
}

async function openFile(
  model: Model,
  platform: Files | undefined,
  location: string,
  given: string | undefined,
  tensor: ExternalTensor,
): Promise<ReadableFile> {
  if (platform === undefined) return fail(tensor, "was not given: pass it in externalData");
  if (given === undefined && model.path === undefined)
    return fail(tensor, "cannot be found: the model's path is not known; pass it in externalData");
  if (location === inside) return platform.open(model.path!);
  try {
    return await (given === undefined ? platform.openBeside(model.path ?? "", location) : platform.open(given));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return fail(tensor, `cannot be opened: ${why}; it belongs beside the model's file: fetch it again, whole`, error);
  }
}

/** Fails for a small file that stands in the place of weights: a pointer of git-LFS, or a page. */
export async function refuseForeign(tensor: ExternalTensor, file: ReadableFile): Promise<void> {
  if (file.size > mostForeignBytes || tensor.external.location === inside) return;
  const beginning = new Uint8Array(file.size);
  await file.read(0, beginning);
  const foreign = foreignFile(beginning);
  if (foreign?.startsWith("is a git-LFS pointer") || isWebPage(beginning)) fail(tensor, foreign!);
}

/** Checks that a file of `size` bytes holds what the tensors ask for; the bytes that all of them take, equal ranges once. */
export function checkSizes(tensors: readonly ExternalTensor[], size: number): number {
  const ranges = new Map<string, number>();
  for (const tensor of tensors) {
    const { offset, length } = tensor.external;
    const expected = byteLengthOf(tensor.type, elementCount(tensor.dims));
    if (length !== undefined && length !== expected)
      fail(tensor, `has length ${length}, ${tensor.type}[${tensor.dims.join(",")}] needs ${expected}`);
    if (offset + expected > size)
      fail(tensor, `has ${size} bytes, the tensor needs ${expected} from offset ${offset}: fetch it again, whole`);
    if (expected > largestByteLength)
      fail(tensor, `holds ${expected} bytes for one tensor, at most ${largestByteLength} can be addressed`);
    ranges.set(`${tensor.type} ${offset} ${expected}`, expected);
  }
  let asked = 0;
  for (const length of ranges.values()) asked += length;
  return asked;
}

/** What is asked of one file, by whatever names. */
export interface Asked {
  readonly bytes: number;
  readonly size: number;
  readonly tensor: ExternalTensor;
}

/** Adds to what is asked of a file; overlaps must not multiply memory. */
export function checkOverlap(asked: Map<unknown, Asked>, whole: unknown, more: Asked): void {
  const bytes = (asked.get(whole)?.bytes ?? 0) + more.bytes;
  if (bytes > more.size * mostOverlap)
    fail(more.tensor, `has ${more.size} bytes, overlapping tensors ask for ${bytes}`);
  asked.set(whole, { ...more, bytes });
}
