/**
 * Buffers that several sessions on one device have in common: weights that come from the same place of the same files, and forms of them. One session
 * fills a buffer, the others wait for that, the last one that lets go of it destroys it. Knows no weight.
 */

/** Such a buffer, which may lie in pieces. */
export class CommonBuffer {
  readonly pieces: readonly GPUBuffer[];
  readonly isThere: Promise<boolean>;
  readonly #forget: () => void;
  #sessions = 1;
  #isFilled = false;
  /** Ends when the session that fills it has ended, and how it is told to. */
  #filling: { readonly ended: Promise<void>; readonly end: () => void } | undefined;

  constructor(pieces: readonly GPUBuffer[], isThere: Promise<boolean>, forget: () => void) {
    this.pieces = pieces;
    this.isThere = isThere;
    this.#forget = forget;
    void isThere.then((there) => there || forget());
  }

  get sessions(): number {
    return this.#sessions;
  }

  get isFilled(): boolean {
    return this.#isFilled;
  }

  join(): void {
    this.#sessions++;
  }

  leave(): void {
    if (--this.#sessions > 0) return;
    this.#forget();
    for (const piece of this.pieces) piece.destroy();
  }

  /** True for the session that is to fill it: until `end` others are not asked. */
  begin(): boolean {
    if (this.#isFilled || this.#filling !== undefined) return false;
    let end: () => void = () => undefined;
    const ended = new Promise<void>((done) => void (end = done));
    this.#filling = { ended, end };
    return true;
  }

  /** For the session that fills it: it is filled, or another may try. */
  end(isFilled: boolean): void {
    this.#isFilled = isFilled;
    this.#filling?.end();
    this.#filling = undefined;
  }

  /** Waits for the session that fills it, if one does. Who waits must not keep others waiting. */
  async ended(): Promise<void> {
    await this.#filling?.ended;
  }
}

/** Those of one device, by what is in them. */
export class CommonBuffers {
  readonly #buffers = new Map<string, CommonBuffer>();

  get(key: string): CommonBuffer | undefined {
    return this.#buffers.get(key);
  }

  add(key: string, pieces: readonly GPUBuffer[], isThere: Promise<boolean>): CommonBuffer {
    const buffer: CommonBuffer = new CommonBuffer(pieces, isThere, () => {
      if (this.#buffers.get(key) === buffer) this.#buffers.delete(key);
    });
    this.#buffers.set(key, buffer);
    return buffer;
  }
}
