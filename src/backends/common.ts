/**
 * What several sessions on one device have in common: weights that come from the same places of the same files, and forms of them. One session fills
 * it, the others wait for that or take over where it fails, and the last one that lets go of it gives it back. Knows no memory.
 */

/** One such thing. */
export class Common<Contents> {
  readonly contents: Contents;
  readonly forget: () => void;
  readonly #giveBack: (contents: Contents) => void;
  sessions = 1;
  isFilled = false;
  /** Ends when the session that fills it has ended, and how it is told to. */
  #filling: { readonly ended: Promise<void>; readonly end: () => void } | undefined;

  constructor(contents: Contents, forget: () => void, giveBack: (contents: Contents) => void) {
    this.contents = contents;
    this.forget = forget;
    this.#giveBack = giveBack;
  }

  leave(): void {
    if (--this.sessions > 0) return;
    this.forget();
    this.#giveBack(this.contents);
  }

  /** True for the session that is to fill it, until `end`. */
  begin(): boolean {
    if (this.isFilled || this.#filling !== undefined) return false;
    let end: () => void = () => undefined;
    this.#filling = { ended: new Promise<void>((done) => void (end = done)), end: () => end() };
    return true;
  }

  /** For the session that fills it: it is filled, or another may try. */
  end(isFilled: boolean): void {
    this.isFilled = isFilled;
    this.#filling?.end();
    this.#filling = undefined;
  }

  /** Waits for the session that fills it, if one does. Who waits must not keep others waiting. */
  async ended(): Promise<void> {
    await this.#filling?.ended;
  }
}

/** Those of one device, by what is in them. */
export class Commons<Contents> {
  readonly #all = new Map<string, Common<Contents>>();

  get(key: string): Common<Contents> | undefined {
    return this.#all.get(key);
  }

  add(key: string, contents: Contents, giveBack: (contents: Contents) => void): Common<Contents> {
    const common: Common<Contents> = new Common(
      contents,
      () => void (this.#all.get(key) === common && this.#all.delete(key)),
      giveBack,
    );
    this.#all.set(key, common);
    return common;
  }
}
