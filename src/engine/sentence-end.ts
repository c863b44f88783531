/** Where sentences end in a text that comes in pieces. Knows no model, and no language but how it ends a sentence. */

/** A sentence's last mark with what closes after it, where a line ends or something begins that is no small letter; a title or an initial ends none. */
const end =
  /(?<!\b(?:Mr|Mrs|Ms|Dr|St|\p{Lu}))[.!?…]["'”’»)\]]*(?=\n|\s+[^\s\p{Ll}])|[。！？][」』”’）]*(?=[^」』”’）])/gu;

/** What of the text before a piece decides whether a sentence ends in it. */
const mostBefore = 16;

/** Finds the end of a sentence with the piece that shows it to be one. */
export class SentenceEnd {
  #before = "";

  /** The part of this piece that belongs to the sentence which ends in it; undefined where none does. */
  push(piece: string): string | undefined {
    const text = this.#before + piece;
    const kept = this.#before.length;
    this.#before = text.slice(-mostBefore);
    for (const { index, 0: mark } of text.matchAll(end)) {
      const at = index + mark.length;
      // What stands between an end and this piece showed it, or that it is none, before.
      if (text.slice(at, kept).trim() === "") return piece.slice(0, Math.max(0, at - kept));
    }
    return undefined;
  }
}
