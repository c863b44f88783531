/**
 * Writes one part of a model as a message. What was read and not changed is given back byte for byte, fields that the
 * interfaces do not name included; a changed field is written anew in its old place.
 */
import { Cursor } from "./cursor.js";
import type { FieldTable } from "./fields.js";
import type { Pieces } from "./pieces.js";
import { Source } from "./source.js";

/** How one field of a message is written. */
export interface FieldWriter<T> {
  /** The properties that the field is made of: it counts as changed when one of them is another value than was read. */
  readonly from: readonly string[];
  /** Adds the field, all entries of it, or nothing where it is absent. */
  write(out: Pieces, number: number, part: T): void;
}

/** How a message is written: its fields by name; those missing here are only ever copied. */
export type MessageWriter<T, Name extends string> = Readonly<Partial<Record<Name, FieldWriter<T>>>>;

/** Adds the content of `part`'s message. */
export function writeMessage<T extends { readonly source?: Source }, Name extends string>(
  out: Pieces,
  table: FieldTable<Name>,
  writers: MessageWriter<T, Name>,
  part: T,
): void {
  const read = part.source === undefined ? undefined : Source.open(part.source);
  const changed = table.byNumber.filter((field) => {
    const writer = field && writers[field.name];
    return (
      writer !== undefined &&
      (read === undefined || writer.from.some((key) => Reflect.get(part, key) !== Reflect.get(read.original, key)))
    );
  });
  let next = 0;
  const writeNext = (): void => {
    const { name, number } = changed[next++]!;
    writers[name]!.write(out, number, part);
  };
  if (read !== undefined) {
    const copy = (start: number, end: number): void => {
      for (const piece of read.bytes.range(start, end)) out.raw(piece);
    };
    if (changed.length === 0) return copy(read.start, read.end);
    const cursor = new Cursor(read.bytes, false, read.start, read.end);
    const replaced = new Set(changed.map((field) => field!.number));
    for (let number = cursor.nextRange(); number !== undefined; number = cursor.nextRange()) {
      while (next < changed.length && changed[next]!.number <= number) writeNext();
      if (!replaced.has(number)) copy(cursor.fieldStart, cursor.position);
    }
  }
  while (next < changed.length) writeNext();
}

/** A string field that is left out when empty. */
export const text = <T>(key: keyof T & string): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    const value = part[key];
    if (typeof value === "string" && value !== "") out.string(number, value);
  },
});

/** A repeated string field. */
export const texts = <T>(key: keyof T & string): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    for (const value of part[key] as readonly string[]) out.string(number, value);
  },
});

/** An integer field that is left out when 0. */
export const integer = <T>(key: keyof T & string): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    const value = part[key];
    if (typeof value === "number" && value !== 0) out.integer(number, value);
  },
});

/** A repeated integer field, unpacked as ONNX's producers write it. */
export const integers = <T>(key: keyof T & string): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    for (const value of part[key] as readonly number[]) out.integer(number, value);
  },
});

/** A repeated key-value field. */
export const entries = <T>(key: keyof T & string): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    for (const [name, value] of part[key] as ReadonlyMap<string, string>) writeEntry(out, number, name, value);
  },
});

/** Adds one key-value entry. */
export function writeEntry(out: Pieces, number: number, key: string, value: string): void {
  out.message(number, (entry) => entry.string(1, key).string(2, value));
}

/** A repeated opset import. */
export const opsets = <T extends { readonly opsets: ReadonlyMap<string, number> }>(): FieldWriter<T> => ({
  from: ["opsets"],
  write(out, number, part) {
    for (const [domain, version] of part.opsets) {
      out.message(number, (entry) => entry.string(1, domain).integer(2, version));
    }
  },
});

/** A repeated message field. */
export const messages = <T, Item>(
  items: (part: T) => Iterable<Item>,
  key: string,
  write: (out: Pieces, item: Item) => void,
): FieldWriter<T> => ({
  from: [key],
  write(out, number, part) {
    for (const item of items(part)) out.message(number, (content) => write(content, item));
  },
});
