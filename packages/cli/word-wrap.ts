/** Text for a terminal as it comes, piece by piece: lines are broken between words, not inside them. */

/** Columns that a character takes: none for what joins the one before, two for those of East Asia and pictures. */
function widthOf(character: string): number {
  if (/\p{M}|\p{Cf}/u.test(character)) return 0;
  return isWide(character) ? 2 : 1;
}

/** True for characters that lines may be broken between, as their writing has no spaces. */
const isWide = (character: string): boolean =>
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u.test(
    character,
  );

/** Where generated text goes. */
interface TextOutput {
  write(text: string): void;
  /** Writes what was held back. */
  end(): void;
}

/** Breaks lines between words for a width that may change while it writes. A word is held back until it is whole. */
class WordWrap implements TextOutput {
  readonly #write: (text: string) => void;
  readonly #columns: () => number;
  #column = 0;
  /** The spaces before the word that is held back, and the word. */
  #spaces = "";
  #word = "";

  constructor(write: (text: string) => void, columns: () => number) {
    this.#write = write;
    this.#columns = columns;
  }

  write(text: string): void {
    for (const character of text) {
      if (character === "\n") {
        this.#place();
        this.#write("\n");
        [this.#column, this.#spaces] = [0, ""];
      } else if (/[ \t\r]/.test(character)) {
        this.#place();
        this.#spaces += character === "\t" ? "    " : character.trim() === "" && character !== "\r" ? character : "";
      } else {
        if (isWide(character)) this.#place();
        this.#word += character;
      }
    }
  }

  end(): void {
    this.#place();
  }

  #place(): void {
    if (this.#word === "") return;
    const width = Array.from(this.#word, widthOf).reduce((sum, each) => sum + each, 0);
    const columns = Math.max(this.#columns(), 1);
    const fits = this.#column + this.#spaces.length + width <= columns;
    if (!fits && this.#column > 0) {
      this.#write("\n");
      this.#column = 0;
    } else {
      this.#write(this.#spaces);
      this.#column += this.#spaces.length;
    }
    this.#write(this.#word);
    // A word longer than a line is broken by the terminal itself.
    this.#column = this.#column + width <= columns ? this.#column + width : (this.#column + width) % columns;
    [this.#spaces, this.#word] = ["", ""];
  }
}

type Terminal = Pick<NodeJS.WriteStream, "write"> & { readonly isTTY?: boolean; readonly columns?: number };

/** Text to standard output: wrapped on a terminal, as it is elsewhere. */
export function textOutput(stream: Terminal = process.stdout): TextOutput {
  const write = (text: string): void => void stream.write(text);
  return stream.isTTY === true ? new WordWrap(write, () => stream.columns || 80) : { write, end: () => {} };
}
