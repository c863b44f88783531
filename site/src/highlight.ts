/** Colours in code: comments, texts, numbers and words that languages reserve, told apart by their looks alone. Knows no language whole. */
/** Longer than this, code is shown as it is. */
const mostCharacters = 20_000;

const reserved = new Set(
  `abstract and as assert async await break case catch class const continue def default defer del do elif else enum except export extends extern
  finally fn for from func function global go if impl implements import in interface is lambda let loop match mod mut namespace new not null None nil
  of or override package pass private protected pub public raise readonly ref return select self static struct super switch this throw trait try type
  typeof union unsafe use using val var void where while with yield true false True False undefined
  SELECT FROM WHERE INSERT UPDATE DELETE INTO VALUES SET JOIN LEFT ON GROUP ORDER BY LIMIT CREATE TABLE AND OR NOT NULL AS`.split(
    /\s+/,
  ),
);

/** Languages whose comments begin with a hash, or with two dashes; all others have two slashes. */
const hashes =
  /^(py|python|rb|ruby|sh|bash|zsh|shell|console|ya?ml|toml|r|perl|pl|make|makefile|dockerfile|ini|conf)$/i;
const dashes = /^(sql|lua|haskell|hs|ada|elm)$/i;

/** What is no code. */
const plain = /^(|text|txt|plain|plaintext|log|output|md|markdown|diff)$/i;

const texts = String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|${"`(?:[^`\\\\]|\\\\.)*`"}`;

function patternOf(language: string): RegExp {
  const comment = hashes.test(language)
    ? String.raw`#.*`
    : dashes.test(language)
      ? String.raw`--.*`
      : String.raw`\/\/.*|\/\*[^]*?(?:\*\/|$)|<!--[^]*?(?:-->|$)`;
  return new RegExp(
    String.raw`(?<comment>${comment})|(?<text>${texts})|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_$][\w$]*)`,
    "g",
  );
}

/** A piece of code; the kind is undefined for what has no colour. */
type Piece = readonly [kind: "comment" | "text" | "number" | "word" | undefined, text: string];

/** Code in pieces: every character of it, in order. */
export function piecesOf(code: string, language: string | undefined): readonly Piece[] {
  if (language === undefined || plain.test(language) || code.length > mostCharacters) return [[undefined, code]];
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of code.matchAll(patternOf(language))) {
    const [kind] = (["comment", "text", "number", "word"] as const).filter((name) => match.groups![name] !== undefined);
    if (kind === "word" && !reserved.has(match[0])) continue;
    if (match.index > end) pieces.push([undefined, code.slice(end, match.index)]);
    end = match.index + match[0].length;
    pieces.push([kind, match[0]]);
  }
  return [...pieces, [undefined, code.slice(end)]];
}
