/**
 * Walks protobuf's wire format inside strict bounds: no message reaches past its parent, no length past the bytes, and
 * nothing is allocated on the word of a length. Knows fields and numbers, not what they mean.
 */
import { InsituError } from "../base/error.js";
import { deepestNesting, mostObjects } from "../base/limits.js";
import { type Field, type FieldTable, Wire } from "./fields.js";
import type { SourceBytes } from "./source.js";
import { decodeUtf8 } from "./utf8.js";

/** A position in a file's bytes. */
export class Cursor {
  readonly source: SourceBytes;
  /** True if the bytes may be rearranged. */
  readonly owned: boolean;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** The next byte to read. */
  position: number;
  /** The end of the message being read. */
  end: number;
  /** Where the tag of the field being read starts. */
  fieldStart = 0;
  /** The wire type of the field being read. */
  wire = 0;
  #objectsLeft: number;
  /** High half of the last varint, as a signed 32-bit integer; `varint` returns the low half. */
  high = 0;

  constructor(source: SourceBytes, owned: boolean, start = 0, end: number = source.bytes.length) {
    this.source = source;
    this.#bytes = source.bytes;
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength);
    this.owned = owned;
    this.position = start;
    this.end = end;
    this.#objectsLeft = mostObjects(source.bytes.length);
  }

  /** Throws `invalid-model`, naming the byte. */
  fail(message: string, position: number = this.position): never {
    throw new InsituError("invalid-model", `${message} (at byte ${position})`);
  }

  /** Moves to the next field that the table knows, skipping others; undefined at the end of the message. */
  next<Name extends string>(table: FieldTable<Name>): Name | undefined {
    while (this.position < this.end) {
      this.fieldStart = this.position;
      const low = this.varint();
      if (this.high !== 0) this.fail(`${table.message}: a field number is too large`, this.fieldStart);
      this.wire = low & 7;
      const number = low >>> 3;
      const field = table.byNumber[number];
      if (field === undefined) {
        if (number === 0 || this.wire === Wire.endGroup)
          this.fail(`${table.message}: illegal tag ${low >>> 0}`, this.fieldStart);
        this.skip();
      } else {
        if (!accepts(field, this.wire)) {
          this.fail(
            `${table.message}: field ${field.name} has wire type ${this.wire}, needs ${field.wire}`,
            this.fieldStart,
          );
        }
        return field.name;
      }
    }
    return undefined;
  }

  /** Moves over the next field, whatever it is, and returns its number; undefined at the end of the message. */
  nextRange(): number | undefined {
    if (this.position >= this.end) return undefined;
    this.fieldStart = this.position;
    const shift = this.source.shiftAt(this.position);
    if (shift !== undefined) {
      this.position = shift.end;
      return shift.number;
    }
    const low = this.varint();
    this.wire = low & 7;
    this.skip();
    return low >>> 3;
  }

  /** Skips the value of the current field. */
  skip(): void {
    this.#skip(this.wire, 0);
  }

  #skip(wire: number, depth: number): void {
    switch (wire) {
      case Wire.varint:
        this.varint();
        return;
      case Wire.fixed64:
        return this.#advance(8);
      case Wire.bytes:
        return this.#advance(this.length());
      case Wire.fixed32:
        return this.#advance(4);
      case Wire.startGroup:
        if (depth >= deepestNesting) this.fail(`groups are nested deeper than ${deepestNesting}`);
        for (;;) {
          const inner = this.varint() & 7;
          if (inner === Wire.endGroup) return;
          this.#skip(inner, depth + 1);
        }
      default:
        this.fail(`illegal wire type ${wire}`, this.fieldStart);
    }
  }

  #advance(count: number): void {
    if (count > this.end - this.position) this.#cutOff(count);
    this.position += count;
  }

  #cutOff(count: number): never {
    this.fail(
      `the bytes are cut off: ${count} more are needed, ${this.end - this.position} are left; fetch the file again, whole`,
    );
  }

  /** Reads the fields of a message to its end, each as its name says. */
  fields<Name extends string>(table: FieldTable<Name>, read: Readonly<Record<Name, () => unknown>>): void {
    for (let field = this.next(table); field !== undefined; field = this.next(table)) read[field]();
  }

  /** Reads the message of the current field. */
  message<T>(read: (cursor: Cursor) => T): T {
    const length = this.length();
    const outer = this.end;
    this.end = this.position + length;
    const made = read(this);
    this.position = this.end;
    this.end = outer;
    return made;
  }

  /** Like `message`, for messages that become an object of their own. */
  object<T>(read: (cursor: Cursor) => T): T {
    this.countObject();
    return this.message(read);
  }

  /** Counts one object against what the file may make us create. */
  countObject(): void {
    if (--this.#objectsLeft < 0) this.fail("more parts than a file of this size can be made of");
  }

  /** Reads a varint: returns the low 32 bits and puts the high ones in `high`, both signed. */
  varint(): number {
    const bytes = this.#bytes;
    const { end } = this;
    let at = this.position;
    let low = 0;
    this.high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= end) this.fail("the bytes are cut off inside a number", at);
      const byte = bytes[at++];
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        this.high = bits >>> 4;
      } else this.high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.position = at;
        return low;
      }
    }
    this.fail("a number has more than 10 bytes");
  }

  /** Reads a length that fits into the message. */
  length(): number {
    const low = this.varint() >>> 0;
    const length = (this.high >>> 0) * 2 ** 32 + low;
    if (length > this.end - this.position) this.#cutOff(length);
    return length;
  }

  /** Reads a signed 64-bit varint as a number; refuses what a number cannot hold exactly. */
  integer(what: string): number {
    const low = this.varint() >>> 0;
    const value = this.high * 2 ** 32 + low;
    if (!Number.isSafeInteger(value)) this.fail(`${what} ${value} is out of range`);
    return value;
  }

  /** Reads a signed 64-bit varint. */
  int64(): bigint {
    const low = this.varint() >>> 0;
    return BigInt.asIntN(64, (BigInt(this.high) << 32n) | BigInt(low));
  }

  /** Reads a float. */
  float(): number {
    this.#advance(4);
    return this.#view.getFloat32(this.position - 4, true);
  }

  /** Reads a double. */
  double(): number {
    this.#advance(8);
    return this.#view.getFloat64(this.position - 8, true);
  }

  /** Reads length-delimited bytes without copying. */
  bytes(): Uint8Array {
    const length = this.length();
    this.position += length;
    return this.#bytes.subarray(this.position - length, this.position);
  }

  /** Reads a string; refuses invalid UTF-8. */
  string(what: string): string {
    const length = this.length();
    const start = this.position;
    this.position += length;
    return decodeUtf8(this.#bytes, start, this.position) ?? this.fail(`${what} is not valid UTF-8`, start);
  }

  /** Number of entries that the current field of `width`-byte entries (0: varints) holds, packed or not; skips it. */
  countEntries(width: 0 | 4 | 8): number {
    if (this.wire !== Wire.bytes) {
      this.skip();
      return 1;
    }
    const length = this.length();
    const start = this.position;
    this.position += length;
    if (width !== 0) {
      if (length % width !== 0) this.fail(`a packed run of ${width}-byte entries has ${length} bytes`, start);
      return length / width;
    }
    let count = 0;
    for (let at = start; at < this.position; at++) if (this.#bytes[at] < 0x80) count++;
    return count;
  }

  /** Calls `read` once for each entry of the current field, packed or not. */
  forEachEntry(read: () => void): void {
    if (this.wire !== Wire.bytes) return read();
    const length = this.length();
    const outer = this.end;
    this.end = this.position + length;
    while (this.position < this.end) read();
    this.end = outer;
  }
}

const accepts = (field: Field<string>, wire: number): boolean =>
  wire === field.wire || (wire === Wire.bytes && field.packable);
