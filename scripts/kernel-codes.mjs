// The codes in jobs: constants of kernels/ under a comment with `@codes <name> [<prefix>]`, one a line up to the first empty one, each an
// integer or another constant. On the host they are an object of that name, whose keys are the constants' names without the prefix.
import { CommonFlags, NodeKind } from "assemblyscript";
import { docOf, linesOf, refuse, remarkOf, textOf, typeName } from "./kernel-source.mjs";

/** The lists of codes: { name, doc, codes: [{ name, value, remark }] }. */
export function readCodes(sources) {
  const lists = new Map();
  sources.statements.forEach((node, at) => {
    const doc = docOf(node);
    const tag = doc?.tags.find(([name]) => name === "codes");
    if (!tag) return;
    const [, name, prefix = ""] = tag;
    if (!/^[a-z]\w*$/.test(name ?? ""))
      refuse(node, "@codes must be followed by the name that the list has on the host");
    if (lists.has(name)) refuse(node, `there is a list ${name} of codes already`);
    const codes = [];
    for (let next = node, i = at; next;) {
      const code = readCode(next, prefix, sources);
      for (const other of codes)
        if (other.name === code.name || other.value === code.value)
          refuse(next, `${name} has ${other.name} = ${other.value} already`);
      codes.push(code);
      const following = sources.statements[++i];
      next = following && isNextLine(next, following) ? following : undefined;
    }
    lists.set(name, { name, doc: doc.text, codes });
  });
  return [...lists.values()];
}

const isNextLine = (node, next) => next.range.source === node.range.source && linesOf(next)[0] === linesOf(node)[1] + 1;

function readCode(node, prefix, sources) {
  const [constant, ...others] = node.kind === NodeKind.Variable ? node.declarations : [];
  const plain = constant && others.length === 0 && (constant.flags & CommonFlags.Const) !== 0 && constant.type;
  const name = constant?.name.text ?? "";
  if (!plain || typeName(constant.type) !== "i32" || !/^[A-Z][A-Z0-9_]*$/.test(name) || !name.startsWith(prefix))
    refuse(node, `a code must be const ${prefix}NAME: i32, not ${textOf(node).split("\n")[0]}`);
  return { name: camelCase(name.slice(prefix.length)), value: valueOf(constant, sources), remark: remarkOf(node) };
}

/** An integer, or what another constant is. */
function valueOf({ initializer }, sources) {
  const text = textOf(initializer);
  if (/^\d+$/.test(text)) return Number(text);
  const other = sources.declarationOf(initializer, text);
  if (other?.kind !== NodeKind.VariableDeclaration)
    refuse(initializer, `a code must be an integer or a constant, not ${text}`);
  return valueOf(other, sources);
}

const camelCase = (name) => name.toLowerCase().replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
