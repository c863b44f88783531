/**
 * Bytes to be written, as a list of pieces: small ones are gathered, large ones (weights) stay where they are.
 * Knows protobuf's wire format, not ONNX.
 */
import { Wire } from "./fields.js";
import { encodeUtf8 } from "./utf8.js";

/** Pieces up to this length are copied together. */
const smallest = 1024;

/** A growing list of byte pieces. */
export class Pieces {
  readonly #list: Uint8Array[] = [];
  #scratch: Uint8Array = new Uint8Array(64);
  #used = 0;
  #length = 0;

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  #room(count: number): void {
    if (this.#used + count <= this.#scratch.length) return;
    const larger = new Uint8Array(Math.max(this.#used + count, this.#scratch.length * 2));
    larger.set(this.#scratch.subarray(0, this.#used));
    this.#scratch = larger;
  }

  #byte(value: number): void {
    this.#room(1);
    this.#scratch[this.#used++] = value;
    this.#length++;
  }

  /** Adds bytes; long ones are kept by reference, so they must not change until the pieces are used. */
  raw(bytes: Uint8Array): this {
    if (bytes.length <= smallest) {
      this.#room(bytes.length);
      this.#scratch.set(bytes, this.#used);
      this.#used += bytes.length;
    } else {
      this.#flush();
      this.#list.push(bytes);
    }
    this.#length += bytes.length;
    return this;
  }

  #flush(): void {
    if (this.#used === 0) return;
    this.#list.push(this.#scratch.subarray(0, this.#used));
    this.#scratch = new Uint8Array(64);
    this.#used = 0;
  }

  /** Adds an integer as a varint; negative ones take ten bytes. */
  varint(value: number | bigint): this {
    if (typeof value === "number" && value >= 0) {
      for (; value > 0x7f; value = Math.floor(value / 0x80)) this.#byte((value % 0x80) | 0x80);
      this.#byte(value);
      return this;
    }
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 0x7fn; rest >>= 7n) this.#byte(Number(rest & 0x7fn) | 0x80);
    this.#byte(Number(rest));
    return this;
  }

  /** Adds a field's tag. */
  tag(number: number, wire: number): this {
    return this.varint(number * 8 + wire);
  }

  /** Adds an integer field. */
  integer(number: number, value: number | bigint): this {
    return this.tag(number, Wire.varint).varint(value);
  }

  /** Adds a float field. */
  float(number: number, value: number): this {
    return this.tag(number, Wire.fixed32).raw(new Uint8Array(Float32Array.of(value).buffer));
  }

  /** Adds a bytes field. */
  bytes(number: number, value: Uint8Array): this {
    return this.tag(number, Wire.bytes).varint(value.length).raw(value);
  }

  /** Adds a string field. */
  string(number: number, value: string): this {
    return this.bytes(number, encodeUtf8(value));
  }

  /** Adds a message field whose content `write` adds to the pieces it is given. */
  message(number: number, write: (content: Pieces) => void): this {
    const content = new Pieces();
    write(content);
    this.tag(number, Wire.bytes).varint(content.length);
    for (const piece of content.list()) this.raw(piece);
    return this;
  }

  /** The pieces in order; sharing memory with what was added. */
  list(): readonly Uint8Array[] {
    this.#flush();
    return this.#list;
  }
}

/** All pieces in one array. */
export function concatenate(pieces: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
