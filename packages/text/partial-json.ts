/** JSON that is not whole yet, as a value: what is open is closed, and what is half a name, number or word is left out. Knows no schema. */

/** The value of the beginning of a JSON text; undefined while there is none. The text is one that JSON.parse takes once it is whole. */
export function partialJson(text: string): unknown {
  const closed = closedText(text);
  if (closed === undefined) return undefined;
  try {
    return JSON.parse(closed) as unknown;
  } catch {
    return undefined;
  }
}

/** The longest beginning that can be closed, and what closes it. */
function closedText(text: string): string | undefined {
  const open: string[] = [];
  /** Behind what the text may be cut: a value that is whole, or the begin of an array or object; and what is open there. */
  let whole: { readonly end: number; readonly closers: string } | undefined;
  let isName = false;
  const closers = (): string => open.toReversed().join("");
  const note = (end: number): void => void (whole = { end, closers: closers() });
  for (let at = 0; at < text.length;) {
    const sign = text[at];
    if (sign === '"') {
      const string = /"(?:\\u[\da-fA-F]{4}|\\[^u]|[^"\\])*/y;
      string.lastIndex = at;
      const end = at + string.exec(text)![0].length;
      if (text[end] !== '"') return isName ? cut(text, whole) : `${text.slice(0, end)}"${closers()}`;
      at = end + 1;
      if (!isName) note(at);
      continue;
    }
    if (sign === "{" || sign === "[") {
      open.push(sign === "{" ? "}" : "]");
      isName = sign === "{";
      note(++at);
    } else if (sign === "}" || sign === "]") {
      open.pop();
      isName = false;
      note(++at);
    } else if (sign === ":" || sign === ",") {
      isName = sign === "," && open.at(-1) === "}";
      at++;
    } else if (/\s/.test(sign)) at++;
    else {
      const word = /[-+.\w]+/y;
      word.lastIndex = at;
      const found = word.exec(text)?.[0];
      if (found === undefined) return cut(text, whole);
      at += found.length;
      // A number at the end may go on.
      if (/^(true|false|null)$/.test(found) || (at < text.length && found !== "")) note(at);
    }
  }
  return cut(text, whole);
}

const cut = (text: string, whole: { readonly end: number; readonly closers: string } | undefined): string | undefined =>
  whole && text.slice(0, whole.end) + whole.closers;
