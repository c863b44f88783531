// The sources of kernels/, parsed by AssemblyScript's own parser: declarations by name, through imports, with the comments that belong to
// them. Whoever reads more out of them refuses what it does not understand with `refuse`, which names the file and the line.
import { CommonFlags, NodeKind, Parser } from "assemblyscript";

/** The line of a node, as an editor finds it. */
export const placeOf = (node) => `${node.range.source.normalizedPath}:${node.range.source.lineAt(node.range.start)}`;

/** Throws: what is wrong with a node of a kernel's source. */
export function refuse(node, message) {
  throw new Error(`${placeOf(node)}: ${message}`);
}

/** What a node says. */
export const textOf = ({ range }) => range.source.text.slice(range.start, range.end);

export const isExported = (node) => (node.flags & CommonFlags.Export) !== 0;

/** The name of a plain type: no arguments, no null. */
export function typeName(type) {
  if (type.kind !== NodeKind.NamedType || type.isNullable || type.typeArguments?.length) return undefined;
  return type.name.next ? undefined : type.name.identifier.text;
}

/** The comment before a declaration: `text` as it stands between the marks, line by line, `tags` what follows each @ in it. */
export function docOf(node) {
  const { source, start } = node.range;
  const before = source.text.slice(0, start).replace(/(\n\/\/ @ts-ignore: decorator)?\s*$/, "");
  const opened = before.lastIndexOf("/**");
  if (!before.endsWith("*/") || opened < 0 || before.indexOf("*/", opened) !== before.length - 2) return undefined;
  const lines = before
    .slice(opened + 3, -2)
    .split("\n")
    .map((line) => line.replace(/^\s*\*? ?/, "").trimEnd());
  const tags = lines.filter((line) => line.startsWith("@")).map((line) => line.slice(1).split(/\s+/));
  const text = lines.filter((line) => line !== "" && !line.startsWith("@"));
  // The file's own first comment belongs to no declaration.
  return opened === 0 ? undefined : { text, tags };
}

/** What a line says behind a statement: its comment, or nothing. */
export function remarkOf(node) {
  const { source, end } = node.range;
  const rest = source.text
    .slice(end)
    .match(/^;?([^\n]*)/)[1]
    .trim();
  if (rest === "") return undefined;
  if (!rest.startsWith("// ")) refuse(node, `behind ${textOf(node)} only a comment may stand, not ${rest}`);
  return rest.slice(3);
}

/** The first and last line of a statement. */
export const linesOf = ({ range: { source, start, end } }) => [source.lineAt(start), source.lineAt(end)];

/** The files of a folder as text by name → their statements, and whatever a name in one of them stands for. */
export function readSources(texts) {
  const files = new Map();
  for (const [name, text] of Object.entries(texts)) {
    const parser = new Parser();
    parser.parseFile(text, `kernels/${name}`, true);
    const [mistake] = parser.diagnostics;
    if (mistake) refuse(mistake, mistake.message);
    files.set(`kernels/${name}`.replace(/\.ts$/, ""), namesOf(parser.sources[0]));
  }
  /** The declaration that a name of a file stands for, through imports. */
  const find = (path, name) => {
    const found = files.get(path)?.names.get(name);
    return found?.kind === NodeKind.ImportDeclaration ? find(found.path, found.foreignName.text) : found?.node;
  };
  return {
    statements: [...files.values()].flatMap(({ statements }) => statements),
    /** What `name` stands for where `node` is; undefined for what the language itself brings. */
    declarationOf: (node, name) => find(node.range.source.internalPath, name),
  };
}

function namesOf({ statements }) {
  const names = new Map();
  for (const statement of statements) {
    if (statement.kind === NodeKind.Import) {
      for (const { kind, name, foreignName } of statement.declarations ?? [])
        names.set(name.text, { kind, foreignName, path: statement.internalPath });
    } else if (statement.kind === NodeKind.Variable) {
      for (const node of statement.declarations) names.set(node.name.text, { kind: node.kind, node });
    } else if (statement.name) names.set(statement.name.text, { kind: statement.kind, node: statement });
  }
  return { statements, names };
}
