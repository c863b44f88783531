/**
 * Where a part of a model came from: a range of the file's bytes. Lets the writer give back unchanged parts as they
 * were, with every field that the model's interfaces do not name. Opaque outside onnx/.
 */

/** A length-delimited field whose content was moved down over its own tag and length. */
interface Shift {
  /** Where the field's tag was. */
  readonly start: number;
  /** The tag and length that were overwritten, in part or whole. */
  readonly header: Uint8Array;
  /** Where the content lies now. */
  readonly moved: number;
  /** Length of the content. */
  readonly length: number;
}

/** The bytes of one file, with what was moved inside them. */
export class SourceBytes {
  readonly bytes: Uint8Array;
  readonly #shifts: Shift[] = [];

  constructor(bytes: Uint8Array) {
    // A plain view: Buffer's slice and subarray behave differently.
    this.bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Moves a field's content down by `by` bytes, over the header that starts at `start`. Call in ascending order. */
  shift(start: number, content: number, length: number, by: number): void {
    this.#shifts.push({ start, header: this.bytes.slice(start, content), moved: content - by, length });
    this.bytes.copyWithin(content - by, content, content + length);
  }

  /** The bytes from `start` to `end` as they were in the file, in pieces that share its memory. */
  range(start: number, end: number): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    let at = start;
    for (let i = this.#firstShift(start); i < this.#shifts.length && this.#shifts[i].start < end; i++) {
      const { start: field, header, moved, length } = this.#shifts[i];
      if (field > at) pieces.push(this.bytes.subarray(at, field));
      pieces.push(header, this.bytes.subarray(moved, moved + length));
      at = field + header.length + length;
    }
    if (at < end) pieces.push(this.bytes.subarray(at, end));
    return pieces;
  }

  /** Number and end of the field at `position` if its content was moved. */
  shiftAt(position: number): { readonly number: number; readonly end: number } | undefined {
    const shift = this.#shifts[this.#firstShift(position)];
    if (shift?.start !== position) return undefined;
    // Every field that is ever moved has a tag of one byte.
    return { number: shift.header[0] >>> 3, end: position + shift.header.length + shift.length };
  }

  #firstShift(position: number): number {
    let low = 0;
    let high = this.#shifts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#shifts[middle].start < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The range of bytes that one part of a model was read from, and the part as it was read. */
export class Source {
  readonly #bytes: SourceBytes;
  readonly #start: number;
  readonly #end: number;
  readonly #original: object;

  constructor(bytes: SourceBytes, start: number, end: number, original: object) {
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
    this.#original = original;
  }

  /** What only the writer may look at. */
  static open(source: Source): { bytes: SourceBytes; start: number; end: number; original: object } {
    return { bytes: source.#bytes, start: source.#start, end: source.#end, original: source.#original };
  }
}
