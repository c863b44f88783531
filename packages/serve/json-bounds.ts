/**
 * Bounds on what JSON may hold, counted while its bytes come and before anything is made of them: nesting, lists and objects, names. Says nothing
 * about whether it is JSON. Numbers and texts in a list are bounded by the bytes that they take.
 */
import { badField } from "./wire/api-error.js";

/** Lists and objects inside each other. */
const mostNesting = 128;

/** Lists and objects of one body: each is made, looked at and let go of. */
const mostContainers = 32_768;

/** Names of all objects of one body. */
const mostNames = 131_072;

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a];
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Counts through the bytes of one body. */
export class JsonBounds {
  #nesting = 0;
  #containers = 0;
  #names = 0;
  #isText = false;
  #isEscaped = false;
  readonly #param: string | undefined;

  /** Of a field that holds JSON as text; of the body where none is named. */
  constructor(param?: string) {
    this.#param = param;
  }

  /** The next bytes; throws with the bound that they break. */
  push(bytes: Uint8Array): void {
    let isText = this.#isText;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (isText) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === backslash) this.#isEscaped = true;
        else if (byte === quote) isText = false;
      } else if (byte === quote) isText = true;
      else if (byte === openList || byte === openObject) this.#open();
      else if (byte === closeList || byte === closeObject) this.#nesting--;
      else if (byte === colon && ++this.#names > mostNames)
        this.#refuse(`its objects may have ${mostNames} names in all`);
    }
    this.#isText = isText;
  }

  #open(): void {
    if (++this.#nesting > mostNesting) this.#refuse(`lists and objects may lie ${mostNesting} deep in each other`);
    if (++this.#containers > mostContainers) this.#refuse(`it may have ${mostContainers} lists and objects in all`);
  }

  #refuse(rule: string): never {
    throw badField(this.#param, `${this.#param ?? "the body"} is too involved: ${rule}`, "body_too_complex");
  }
}
