// How a page reads: its words, and Flesch's reading ease of its prose.
import { syllable } from "syllable";

/** The prose of a page: without code blocks, tables, headings, pictures, addresses and names in code. */
export const proseOf = (page: string): string =>
  page
    .replace(/^```[^]*?^```$/gm, "")
    .replace(/^\|.*$/gm, "")
    .replace(/^#+ .*$/gm, "")
    .replace(/!\[[^\]]*\]\([^)]*\)/g, "")
    .replace(/`[^`]*`/g, "")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/<[^>\n]*>/g, "")
    .replaceAll("*", "");

/** Words of a page as `wc -w` counts them. */
export const wordsOf = (page: string): number => page.split(/\s+/).filter((word) => word !== "").length;

/** Sentences: what ends with a full stop, a question or an exclamation mark, or as a list item or a paragraph. */
const sentencesOf = (prose: string): string[] =>
  prose
    .split(/\n\s*\n|^\s*(?:[-*]|\d+\.)\s+/m)
    .flatMap((paragraph) => paragraph.split(/(?<=[.!?])["”)]?\s+/))
    .filter((sentence) => /[a-z]/i.test(sentence));

/** Flesch's reading ease: 206.835 − 1.015 words a sentence − 84.6 syllables a word. 60 to 70 is plain English, below 50 hard to read. */
export function readingEase(page: string): number {
  const prose = proseOf(page);
  const words = prose.match(/[a-z][a-z'’-]*/gi) ?? [];
  const syllables = words.reduce((sum, word) => sum + Math.max(1, syllable(word)), 0);
  return 206.835 - 1.015 * (words.length / sentencesOf(prose).length) - 84.6 * (syllables / words.length);
}
