/** How a macro's parameters get their values. */
import type { CallStatementNode, Expression, MacroNode, Parameter } from "./nodes.js";
import { type CallArguments, Dict, List, type Scope, TemplateError, type Value } from "./values.js";

/** What is left over of arguments goes here, in a macro that asks for it. */
const specialNames = ["kwargs", "varargs"];

const found = new WeakMap<object, ReadonlySet<string>>();

/** The special names that a macro's or a call's body reads. */
export function specialNamesIn(node: MacroNode | CallStatementNode): ReadonlySet<string> {
  let names = found.get(node);
  if (names === undefined) {
    const read = new Set<string>();
    const open: unknown[] = [node.body];
    for (let each = open.pop(); each !== undefined; each = open.pop()) {
      if (typeof each !== "object" || each === null) continue;
      const { type, value } = each as { readonly type?: unknown; readonly value?: unknown };
      if (type === "Identifier" && typeof value === "string" && specialNames.includes(value)) read.add(value);
      for (const inner of each instanceof Map ? [...each].flat() : Object.values(each)) if (inner) open.push(inner);
    }
    const parameters = node.type === "Macro" ? node.args : (node.callerArgs ?? []);
    for (const parameter of parameters) read.delete(nameOf(parameter));
    found.set(node, (names = read));
  }
  return names;
}

/** Gives parameters the arguments of a call, then those that are left their defaults, which may name the others. */
export function bindArguments(
  name: string,
  parameters: readonly Parameter[],
  special: ReadonlySet<string>,
  { positional, named }: CallArguments,
  scope: Scope,
  evaluate: (node: Expression) => Value,
): void {
  const rest = new Map(named);
  const defaults: [name: string, value: Expression][] = [];
  parameters.forEach((parameter, index) => {
    const key = nameOf(parameter);
    const isGiven = index < positional.length || rest.has(key);
    const value = index < positional.length ? positional[index] : rest.get(key);
    if (index >= positional.length) rest.delete(key);
    if (!isGiven && parameter.type === "KeywordArgumentExpression") defaults.push([key, parameter.value]);
    scope.set(key, value);
  });
  if (special.has("kwargs")) scope.set("kwargs", Dict.of(rest));
  else if (rest.size > 0) throw new TemplateError(`the macro "${name}" has no parameter "${[...rest.keys()][0]}"`);
  if (special.has("varargs")) scope.set("varargs", new List(positional.slice(parameters.length)));
  else if (positional.length > parameters.length)
    throw new TemplateError(`the macro "${name}" takes ${parameters.length} arguments, got ${positional.length}`);
  for (const [key, value] of defaults) scope.set(key, evaluate(value));
}

const nameOf = (parameter: Parameter): string =>
  parameter.type === "Identifier" ? parameter.value : parameter.key.value;
