/** Einsum's equations: their grammar, and the index names they give to the axes of each operand. */
import type { CallContext } from "../../graph/op.js";

const ellipsis = "...";

/** An equation as it is written: index names a term, "..." among them. */
interface Equation {
  readonly terms: readonly (readonly string[])[];
  /** Undefined in the implicit form. */
  readonly output: readonly string[] | undefined;
}

/** An equation for operands of known ranks: one index name an axis. */
export interface Indices {
  readonly terms: readonly (readonly string[])[];
  readonly output: readonly string[];
}

function parseTerm(call: CallContext, text: string, equation: string): string[] {
  const [, before, dots = "", after] = /^([A-Za-z]*)(\.\.\.)?([A-Za-z]*)$/.exec(text) ?? [];
  if (before === undefined) {
    return call.fail(
      `equation "${equation}": a term is letters with at most one "...", got "${text}"`,
      "invalid-argument",
    );
  }
  return [...before.split(""), ...(dots === "" ? [] : [ellipsis]), ...after.split("")];
}

/** Reads an equation that must have one term an operand. */
export function parseEquation(call: CallContext, equation: string, operands: number): Equation {
  const [left, right, ...more] = equation.replaceAll(" ", "").split("->");
  call.check(more.length === 0, `equation "${equation}" has more than one "->"`, "invalid-argument");
  const terms = left.split(",").map((term) => parseTerm(call, term, equation));
  call.check(
    terms.length === operands,
    `equation "${equation}" has ${terms.length} terms for ${operands} inputs`,
    "invalid-argument",
  );
  const output = right === undefined ? undefined : parseTerm(call, right, equation);
  const letters = new Set(terms.flat());
  output?.forEach((name, position) => {
    call.check(
      name === ellipsis || letters.has(name),
      `equation "${equation}": no input has the output's index "${name}"`,
      "invalid-argument",
    );
    call.check(
      output.indexOf(name) === position,
      `equation "${equation}": the output repeats the index "${name}"`,
      "invalid-argument",
    );
  });
  return { terms, output };
}

/** Gives every axis its index name; the axes that an ellipsis stands for are named ".0", ".1" and so on. */
export function nameAxes(call: CallContext, { terms, output }: Equation, ranks: readonly number[]): Indices {
  let hidden: number | undefined;
  terms.forEach((term, position) => {
    const rank = ranks[position];
    const letters = term.filter((name) => name !== ellipsis).length;
    const dots = letters < term.length;
    call.check(
      dots ? rank >= letters : rank === letters,
      () => `input ${position} has ${rank} dimensions, its term "${term.join("")}" names ${letters}`,
    );
    if (!dots) return;
    call.check(
      (hidden ??= rank - letters) === rank - letters,
      () => `"..." must stand for as many dimensions everywhere, got ${hidden} and ${rank - letters}`,
    );
  });
  const names = Array.from({ length: hidden ?? 0 }, (_, axis) => `.${axis}`);
  const expand = (term: readonly string[]): string[] => term.flatMap((name) => (name === ellipsis ? names : [name]));
  if (output !== undefined) {
    call.check(
      names.length === 0 || output.includes(ellipsis),
      () => `the output must have "..." for the ${names.length} dimensions it stands for`,
      "invalid-argument",
    );
    return { terms: terms.map(expand), output: expand(output) };
  }
  const all = terms.flat().filter((name) => name !== ellipsis);
  const once = all.filter((name) => all.indexOf(name) === all.lastIndexOf(name)).sort();
  return { terms: terms.map(expand), output: [...names, ...once] };
}
