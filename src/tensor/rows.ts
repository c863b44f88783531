/**
 * Rows that stay in their file until somebody asks for them: a table of which a run reads a few rows, as an embedding is. There is a place for all of
 * them, which takes memory as it is filled. Whoever reads the table without asking for rows has all of it read first.
 */
import { readIntegers } from "./access.js";
import type { LaterElements } from "./deferred.js";
import { type ByteStorage, byteLengthOf, type ElementType } from "./element-type.js";
import { elementCount, View } from "./view.js";

/** Fills `target` at once with the bytes from `start` on, counted from the first element. */
type ReadNow = (start: number, target: Uint8Array) => void;

/** A table of rows with a place of its own. */
export class RowElements implements LaterElements {
  readonly key: string;
  readonly type: Exclude<ElementType, "string">;
  readonly place: ByteStorage;
  readonly rows: number;
  readonly #read: ReadNow;
  readonly #rowBytes: number;
  /** 1 for each row that is there. */
  readonly #known: Uint8Array;
  #count = 0;

  /** `shape` is that of the table: rows along its first axis, each of whole bytes. */
  constructor(
    type: Exclude<ElementType, "string">,
    shape: readonly number[],
    key: string,
    place: ByteStorage,
    read: ReadNow,
  ) {
    this.type = type;
    this.key = key;
    this.place = place;
    [this.rows] = shape;
    this.#read = read;
    this.#rowBytes = byteLengthOf(type, elementCount(shape) / this.rows);
    this.#known = new Uint8Array(this.rows);
  }

  get elements(): ByteStorage {
    if (this.#count < this.rows) {
      this.#read(0, this.#bytes(0, this.rows));
      this.#known.fill(1);
      this.#count = this.rows;
    }
    return this.place;
  }

  viewAs(shape: readonly number[]): View {
    return new RowsView(this, shape);
  }

  async hold(): Promise<void> {
    void this.elements;
  }

  /** Reads those of the rows that indices name which are not there yet. Indices that name none are left to whoever checks them. */
  want(indices: View): void {
    if (this.#count === this.rows) return;
    for (const index of readIntegers(indices)) {
      const row = index < 0 ? index + this.rows : index;
      if (this.#known[row] !== 0) continue;
      this.#read(row * this.#rowBytes, this.#bytes(row, row + 1));
      this.#known[row] = 1;
      this.#count++;
    }
  }

  #bytes(from: number, to: number): Uint8Array {
    const { buffer, byteOffset } = this.place;
    return new Uint8Array(buffer, byteOffset + from * this.#rowBytes, (to - from) * this.#rowBytes);
  }

  /** What is to be told of them. */
  describe(): string {
    return `${this.key}: ${this.#count} of ${this.rows} rows were read, as they were asked for`;
  }
}

/** A view of such a table: all of it is there for whoever looks. */
export class RowsView extends View {
  readonly elements: RowElements;
  #resting: RestingView | undefined;

  constructor(elements: RowElements, shape: readonly number[], offset?: number, strides?: readonly number[]) {
    super(elements.type, shape, elements.place, offset, strides);
    this.elements = elements;
  }

  override get data(): ByteStorage {
    return this.elements.elements;
  }

  override show(shape: readonly number[], offset: number = this.offset, strides?: readonly number[]): View {
    return new RowsView(this.elements, shape, offset, strides);
  }

  /** The table with the rows that are there; undefined where this is not the table as it lies. */
  get resting(): RestingView | undefined {
    if (this.offset !== 0 || !this.contiguous || this.shape[0] !== this.elements.rows) return undefined;
    return (this.#resting ??= new RestingView(this));
  }
}

/** A table of which only those rows are there that were asked for. */
export class RestingView extends View {
  readonly whole: RowsView;

  constructor(whole: RowsView) {
    super(whole.type, whole.shape, whole.elements.place);
    this.whole = whole;
  }
}
