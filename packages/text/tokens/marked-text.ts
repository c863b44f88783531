/** Text that knows where each of its characters comes from: the marks are a second string of the same length. */

/** Who wrote a character, the most trusted first. */
export const markOf = {
  /** The chat template, or the model's own files. */
  template: "\u0000",
  /** The model, in an answer that the conversation repeats. */
  model: "\u0001",
  /** The caller: messages, tools, whatever else was given. */
  caller: "\u0002",
} as const;

/** Text and the marks of its characters. */
export class MarkedText {
  readonly text: string;
  readonly marks: string;

  constructor(text: string, marks: string) {
    this.text = text;
    this.marks = marks;
  }

  /** A text that all comes from one place. */
  static of(text: string, mark: string = markOf.template): MarkedText {
    return new MarkedText(text, mark.repeat(text.length));
  }

  /** Pieces one after another, with something between them where it is given. */
  static join(pieces: readonly MarkedText[], between: MarkedText = empty): MarkedText {
    return new MarkedText(
      pieces.map(({ text }) => text).join(between.text),
      pieces.map(({ marks }) => marks).join(between.marks),
    );
  }

  get length(): number {
    return this.text.length;
  }

  /** The mark of the least trusted character; a text without characters is trusted. */
  get leastTrusted(): string {
    if (this.marks.includes(markOf.caller)) return markOf.caller;
    return this.marks.includes(markOf.model) ? markOf.model : markOf.template;
  }

  slice(from: number, to?: number): MarkedText {
    return new MarkedText(this.text.slice(from, to), this.marks.slice(from, to));
  }

  plus(other: MarkedText): MarkedText {
    return new MarkedText(this.text + other.text, this.marks + other.marks);
  }

  /** This text changed as a whole. Where it kept its length its characters keep their marks, else all get the least trusted. */
  changedTo(text: string): MarkedText {
    return text.length === this.length ? new MarkedText(text, this.marks) : MarkedText.of(text, this.leastTrusted);
  }

  trimmed(start: boolean, end: boolean): MarkedText {
    const from = start ? this.length - this.text.trimStart().length : 0;
    const to = end ? this.text.trimEnd().length : this.length;
    return this.slice(from, Math.max(from, to));
  }

  /** Runs of characters with the same mark, in order. */
  runs(): MarkedText[] {
    const runs: MarkedText[] = [];
    for (let from = 0; from < this.length;) {
      let to = from + 1;
      while (to < this.length && this.marks[to] === this.marks[from]) to++;
      runs.push(this.slice(from, to));
      from = to;
    }
    return runs;
  }
}

const empty = new MarkedText("", "");
