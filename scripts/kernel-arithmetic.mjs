// Functions of kernels/ on whole numbers as TypeScript: parameters, fields of a job and constants; `const`, `if`, `return`; what is not
// understood is refused. Numbers do not overflow, but `&` takes none from 2^32 on; divisions drop the rest.
import { CommonFlags, NodeKind, operatorTokenToString } from "assemblyscript";
import { refuse, textOf, typeName } from "./kernel-source.mjs";

const types = { i32: "number", usize: "number", bool: "boolean" };

/** How tightly what JavaScript writes holds together: its operators, by rank. */
const ranks = [["?"], ["||"], ["&&"], ["===", "!=="], ["<", ">", "<=", ">="], [">>>"], ["+", "-"], ["*", "%", "/"]];
const rankOf = Object.fromEntries(ranks.flatMap((signs, rank) => signs.map((sign) => [sign, rank])));
const unary = ranks.length;
const whole = ranks.length + 1;

/** Functions of the language. */
const builtins = {
  min: (a, b) => `Math.min(${a}, ${b})`,
  max: (a, b) => `Math.max(${a}, ${b})`,
};

/**
 * A function's parameters, result and body as TypeScript, and the fields of its job that it looks at. `functionOf` translates what it calls,
 * `jobOf` reads the class of a job. Throws, with file and line, at what is not understood.
 */
export function translate(node, { sources, functionOf, jobOf }) {
  const { parameters, returnType } = node.signature;
  const result = types[typeName(returnType)];
  if (node.typeParameters || (node.decorators ?? []).some((decorator) => textOf(decorator) !== "@inline") || !result)
    refuse(node, `${node.name.text} must be a plain function that gives i32, usize or bool to be known to the host`);
  const scope = { sources, functionOf, names: new Set(), fields: new Set(), job: undefined };
  for (const { name, type, initializer } of parameters) {
    if (initializer) refuse(type, `parameter ${name.text} of ${node.name.text} must have no value of its own`);
    if (types[typeName(type)]) scope.names.add(name.text);
    else if (scope.job) refuse(type, `${node.name.text} must take one job, not two`);
    else scope.job = { name: name.text, fields: jobOf(type).fields };
  }
  const body = node.body.statements.flatMap((statement) => lines(statement, scope, "  "));
  const given = parameters.map(({ name, type }) => ({ name: name.text, type: types[typeName(type)] }));
  return { parameters: given, job: scope.job, fields: [...scope.fields], result, body };
}

/** A statement as lines. */
function lines(node, scope, indent) {
  if (node.kind === NodeKind.Return && node.value) return [`${indent}return ${write(node.value, scope, 0)};`];
  if (node.kind === NodeKind.If && !node.ifFalse) {
    const inner = node.ifTrue.kind === NodeKind.Block ? node.ifTrue.statements : [node.ifTrue];
    const then = inner.flatMap((statement) => lines(statement, scope, `${indent}  `));
    return [`${indent}if (${write(node.condition, scope, 0)}) {`, ...then, `${indent}}`];
  }
  if (node.kind !== NodeKind.Variable) refuse(node, `${textOf(node).split("\n")[0]} is not understood by the host`);
  return node.declarations.map((declaration) => {
    if (!(declaration.flags & CommonFlags.Const)) refuse(declaration, `${declaration.name.text} must be a const`);
    const text = write(declaration.initializer, scope, 0);
    scope.names.add(declaration.name.text);
    return `${indent}const ${declaration.name.text} = ${text};`;
  });
}

/** An expression's rank and text. */
function read(node, scope) {
  const reader = readers[node.kind];
  if (!reader) refuse(node, `${textOf(node)} is not understood by the host`);
  return reader(node, scope);
}

/** Its text, in parentheses where it holds together less tightly than `rank`. */
function write(node, scope, rank) {
  const [own, text] = read(node, scope);
  return own < rank ? `(${text})` : text;
}

/** Kind of expression → its reader. */
const readers = {
  [NodeKind.Parenthesized]: ({ expression }, scope) => read(expression, scope),
  [NodeKind.Literal](node) {
    if (!/^\d+$/.test(textOf(node))) refuse(node, `${textOf(node)} is no whole number`);
    return [whole, textOf(node)];
  },
  [NodeKind.Assertion](node, scope) {
    if (!types[node.toType && typeName(node.toType)]) refuse(node, `${textOf(node)} is no whole number`);
    return read(node.expression, scope);
  },
  [NodeKind.Identifier](node, { names, sources }) {
    if (names.has(node.text)) return [whole, node.text];
    const found = sources.declarationOf(node, node.text);
    if (found?.kind !== NodeKind.VariableDeclaration || !(found.flags & CommonFlags.Const) || !found.initializer)
      refuse(node, `${node.text} is no constant of kernels/`);
    return read(found.initializer, { names: new Set(), sources }); // written out: names of the function mean nothing in it
  },
  [NodeKind.PropertyAccess](node, { job, fields }) {
    const name = node.property.text;
    const field = textOf(node.expression) === job?.name && job.fields.find((other) => other.name === name);
    if (!field || field.kind === "number") refuse(node, `${textOf(node)} is no whole number of a job`);
    fields.add(name);
    return [whole, `${job.name}.${name}`];
  },
  [NodeKind.UnaryPrefix](node, scope) {
    const sign = operatorTokenToString(node.operator);
    if (!["-", "~", "!"].includes(sign)) refuse(node, `${sign} is not understood by the host`);
    return [unary, `${sign}${write(node.operand, scope, whole)}`];
  },
  [NodeKind.Ternary]({ condition, ifThen, ifElse }, scope) {
    return [0, `${write(condition, scope, 1)} ? ${write(ifThen, scope, 0)} : ${write(ifElse, scope, 0)}`];
  },
  [NodeKind.Binary](node, scope) {
    const { left, right } = node;
    const sign = operatorTokenToString(node.operator);
    const both = (said) => `${write(left, scope, rankOf[said])} ${said} ${write(right, scope, rankOf[said] + 1)}`;
    if (sign === "/") return [whole, `Math.trunc(${both("/")})`];
    if (sign === ">>") return [whole, `Math.floor(${write(left, scope, rankOf["/"])} / ${power(right, scope)})`];
    if (sign === "<<") return [rankOf["*"], `${write(left, scope, rankOf["*"])} * ${power(right, scope)}`];
    if (sign === "&") return [rankOf[">>>"], `(${write(left, scope, unary)} & ${write(right, scope, unary)}) >>> 0`];
    const said = { "==": "===", "!=": "!==" }[sign] ?? sign;
    if (!(said in rankOf)) refuse(node, `${sign} is not understood by the host`);
    return [rankOf[said], both(said)];
  },
  [NodeKind.Call](node, scope) {
    const name = textOf(node.expression);
    const found = scope.sources.declarationOf(node, name);
    if (!found && name in builtins && builtins[name].length === node.args.length && !node.typeArguments?.length)
      return [whole, builtins[name](...node.args.map((argument) => write(argument, scope, 0)))];
    if (found?.kind !== NodeKind.FunctionDeclaration || node.typeArguments?.length || !scope.functionOf)
      refuse(node, `${textOf(node)} is not understood by the host`);
    const { fields } = scope.functionOf(found, node);
    const given = node.args.map((argument) => {
      if (textOf(argument) !== scope.job?.name) return write(argument, scope, 0);
      for (const field of fields) scope.fields.add(field);
      return scope.job.name;
    });
    return [whole, `${name}(${given.join(", ")})`];
  },
};

/** 2 to the power of `bits`. */
function power(bits, scope) {
  return /^\d+$/.test(textOf(bits)) ? String(2 ** Number(textOf(bits))) : `2 ** ${write(bits, scope, whole)}`;
}
