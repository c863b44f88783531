// Takes the comments that say what a name is for out of a script: editors read them in declarations, and running programs do not.
import { parseSync } from "vite";

/** The text without them, where they have lines of their own; `keepsLines` leaves the empty lines, for source maps. */
export function uncommented(path, text, keepsLines = false) {
  if (!text.includes("/**")) return text;
  const { comments } = parseSync(path, text);
  let kept = "";
  let from = 0;
  for (const { start, end, type, value } of comments) {
    const before = text.lastIndexOf("\n", start - 1) + 1;
    const isAlone = text.slice(before, start).trim() === "" && /^[ \t]*\n/.test(text.slice(end));
    if (type !== "Block" || !value.startsWith("*") || !isAlone || before < from) continue;
    kept += text.slice(from, before) + (keepsLines ? "\n".repeat(value.split("\n").length) : "");
    from = text.indexOf("\n", end) + 1;
  }
  return kept + text.slice(from);
}
