/**
 * Elements that operators compute one by one: arithmetic, comparisons, choices. What does not come out as a number or a truth stays a call
 * of the operator, so that it can be computed again elsewhere.
 */
import { addDims, type Dim, divideExactly, multiplyDims, type Shape, subtractDims } from "#insitu/graph/dim.js";
import { integersOf } from "#insitu/graph/fact.js";
import type { Node, Value } from "#insitu/graph/graph.js";
import { readIntegers, readNumbers } from "#insitu/tensor/access.js";
import { type ElementType, traitsOf } from "#insitu/tensor/element-type.js";
import {
  atLeastZero,
  choose,
  combined,
  constantOf,
  type Element,
  integer,
  isZero,
  joined,
  negated,
  not,
  numeric,
  product,
  sum,
  truth,
} from "./element.js";
import { broadcastIndex } from "./element-layout.js";
import type { Question, Rule } from "./elements.js";
import type { Ranges } from "./ranges.js";

const kindOf = (value: Value | undefined): string | undefined =>
  value?.fact?.type === undefined ? undefined : traitsOf(value.fact.type).kind;

/** The operands' elements that one of the output is made of. */
function operandsOf({ node, output, index, of }: Question): Element[] | undefined {
  const found: Element[] = [];
  for (const value of node.inputs) {
    const at = value && broadcastIndex(value.fact?.shape, output.fact?.shape, index);
    if (at === undefined) return undefined;
    found.push(of(value!, at));
  }
  return found;
}

type Combine = (a: Element, b: Element, question: Question) => Element | undefined;

/** An operator of two operands, or of more that are combined one after another. */
const binary =
  (combine: Combine): Rule =>
  (question) => {
    const operands = operandsOf(question);
    if (operands === undefined || operands.length < 1) return undefined;
    const { node } = question;
    return operands.reduce((a, b) =>
      combined(
        a,
        b,
        (left, right) => combine(left, right, question),
        (left, right) => ({ kind: "call", node, of: [left, right] }),
      ),
    );
  };

/** An operator that changes every element by itself. */
const unary =
  (change: (element: Element, question: Question) => Element | undefined): Rule =>
  (question) => {
    const { node, index, of } = question;
    const apply = (element: Element): Element =>
      element.kind === "choose"
        ? choose(element.when, apply(element.yes), apply(element.no))
        : (change(element, question) ?? { kind: "call", node, of: [element] });
    return apply(of(node.inputs[0]!, index));
  };

const difference: Combine = (a, b) => {
  if (constantOf(b) === 0) return a;
  const opposite = negated(b);
  return opposite && sum(a, opposite);
};

const quotient: Combine = (a, b, { output, ranges }) => {
  const [left, right] = [constantOf(a), constantOf(b)];
  if (kindOf(output) === "float") {
    if (left !== undefined && right !== undefined) return numeric(left / right);
    if (right === 1) return a;
    const exact = a.kind === "integer" && b.kind === "integer" ? divideExactly(a.value, b.value) : undefined;
    return exact === undefined ? undefined : integer(exact);
  }
  if (a.kind !== "integer" || b.kind !== "integer") return undefined;
  // Whole numbers are rounded towards 0: down, where none is negative.
  const positive = ranges.isNeverNegative(a.value) && ranges.isNeverNegative(subtractDims(b.value, 1));
  return positive ? integer(ranges.divide(a.value, b.value).quotient) : undefined;
};

const rest: Combine = (a, b, { node, ranges }) => {
  if (a.kind !== "integer" || b.kind !== "integer" || Number(node.attrs["fmod"] ?? 0) !== 0) return undefined;
  return ranges.isNeverNegative(subtractDims(b.value, 1)) ? integer(ranges.divide(a.value, b.value).rest) : undefined;
};

/** The greater (sign 1) or the lesser (sign −1) of two. */
const extreme =
  (sign: 1 | -1): Combine =>
  (a, b, { ranges }) => {
    const [left, right] = [constantOf(a), constantOf(b)];
    if (left !== undefined && right !== undefined) return numeric(sign * Math.max(sign * left, sign * right));
    if (a.kind !== "integer" || b.kind !== "integer") return undefined;
    const gap = multiplyDims(subtractDims(a.value, b.value), sign);
    if (ranges.isNeverNegative(gap)) return a;
    return ranges.isNeverNegative(multiplyDims(gap, -1)) ? b : undefined;
  };

/** a − b ≥ `least`, compared in either direction. */
const compare =
  (sign: 1 | -1, least: 0 | 1): Combine =>
  (a, b, { ranges }) => {
    const [left, right] = [constantOf(a), constantOf(b)];
    if (left !== undefined && right !== undefined) {
      const gap = sign * (left - right);
      return truth(least === 1 ? gap > 0 : gap >= 0);
    }
    if (a.kind !== "integer" || b.kind !== "integer") return undefined;
    return atLeastZero(subtractDims(multiplyDims(subtractDims(a.value, b.value), sign), least), ranges);
  };

const equal: Combine = (a, b, { ranges }) => {
  if (a.kind === "integer" && b.kind === "integer") return isZero(subtractDims(a.value, b.value), ranges);
  const [left, right] = [constantOf(a), constantOf(b)];
  if (left !== undefined && right !== undefined) return truth(left === right);
  if (b.kind === "truth") return b.value ? a : not(a);
  return a.kind === "truth" ? (a.value ? b : not(b)) : undefined;
};

const unequal: Combine = (a, b) =>
  b.kind === "truth" ? (b.value ? not(a) : a) : a.kind === "truth" ? (a.value ? not(b) : b) : undefined;

const logic =
  (kind: "and" | "or"): Rule =>
  (question) => {
    const operands = operandsOf(question);
    return operands && joined(kind, operands);
  };

/** True for the types whose numbers are whole. */
const isWhole = (type: ElementType | undefined): boolean => type !== undefined && traitsOf(type).kind === "integer";

const cast: Rule = (question) => {
  const { node, output, index, of } = question;
  const from = node.inputs[0]?.fact?.type;
  const to = output.fact?.type;
  const element = of(node.inputs[0]!, index);
  if (from === to) return element;
  if (to === "bool") return unary(isTrue)(question);
  if (from === "bool") return choose(element, integer(1), integer(0));
  return unary((part) => {
    const number = constantOf(part);
    if (number !== undefined) return numeric(isWhole(to) ? Math.trunc(number) : number);
    return part.kind === "integer" ? part : undefined;
  })(question);
};

const isTrue = (element: Element, { ranges }: { readonly ranges: Ranges }): Element | undefined => {
  const number = constantOf(element);
  if (number !== undefined) return truth(number !== 0);
  return element.kind === "integer" ? not(isZero(element.value, ranges)) : undefined;
};

const where: Rule = (question) => {
  const operands = operandsOf(question);
  return operands && choose(operands[0], operands[1], operands[2]);
};

const range: Rule = ({ node, index, of }) => {
  const [start, , step] = node.inputs.map((value) => of(value!, []));
  return start.kind === "integer" && step.kind === "integer"
    ? integer(addDims(start.value, multiplyDims(index[0], step.value)))
    : undefined;
};

const constantOfShape: Rule = ({ node, output }) => {
  const value = node.attributes.get("value");
  const view = value?.kind === "tensor" ? value.value : undefined;
  const number = view === undefined ? 0 : isWhole(view.type) ? readIntegers(view)[0] : readNumbers(view)[0];
  return output.fact?.type === "bool" ? truth(number !== 0) : numeric(number);
};

const trilu: Rule = ({ node, index, of, ranges }) => {
  const shift = node.inputs[1] === undefined ? integer(0) : of(node.inputs[1], []);
  if (shift.kind !== "integer") return undefined;
  const [row, column] = index.slice(-2);
  const above = subtractDims(subtractDims(column, row), shift.value); // at least 0 on the diagonal and above it
  const kept = node.attrs["upper"] === false ? multiplyDims(above, -1) : above;
  const zero = node.outputs[0]?.fact?.type === "bool" ? truth(false) : integer(0);
  return choose(atLeastZero(kept, ranges), of(node.inputs[0]!, index), zero);
};

/** Sums along an axis on which every element is the same. */
const cumSum: Rule = ({ node, index, of, ranges }) => {
  const axis = of(
    node.inputs[1]!,
    (node.inputs[1]!.fact?.shape ?? []).map(() => 0),
  );
  const rank = index.length;
  const at = constantOf(axis);
  if (at === undefined || node.attrs["reverse"] === true) return undefined;
  const along = at < 0 ? at + rank : at;
  const size = node.inputs[0]!.fact?.shape?.[along];
  if (size === undefined) return undefined;
  const element = of(node.inputs[0]!, index.with(along, ranges.variable("%summed", size)));
  const number = constantOf(element);
  const count = node.attrs["exclusive"] === true ? index[along] : addDims(index[along], 1);
  return number !== undefined && Number.isSafeInteger(number) ? integer(multiplyDims(count, number)) : undefined;
};

const pad: Rule = ({ node, index, of, ranges }) => {
  const shape = node.inputs[0]?.fact?.shape;
  const listed = integersOf(node.inputs[1]?.fact);
  if (
    shape === undefined ||
    listed?.length !== 2 * shape.length ||
    node.attrs["mode"] !== "constant" ||
    node.inputs[3] !== undefined
  )
    return undefined;
  const source = index.map((at, axis) => subtractDims(at, listed[axis]));
  const inside = source.flatMap((at, axis) => [
    atLeastZero(at, ranges),
    atLeastZero(subtractDims(subtractDims(shape[axis], at), 1), ranges),
  ]);
  const filled =
    node.inputs[2] === undefined
      ? integer(0)
      : of(
          node.inputs[2],
          (node.inputs[2].fact?.shape ?? []).map(() => 0),
        );
  return choose(joined("and", inside), of(node.inputs[0]!, source), filled);
};

/** A product of two elements under the name of a node that is no plain multiplication. */
const multiplied = (node: Node, a: Element, b: Element): Element =>
  combined(a, b, product, (left, right) => ({ kind: "call", node, as: "Mul", of: [left, right] }));

/** A product of matrices that sums over one element only. */
const outer: Rule = ({ node, output, index, of }) => {
  const [left, right] = node.inputs;
  const [a, b] = [left?.fact?.shape, right?.fact?.shape];
  if (a === undefined || b === undefined || a.length < 2 || b.length < 2 || a.at(-1) !== 1) return undefined;
  const whole = output.fact!.shape!;
  const lead = (shape: Shape): Dim[] | undefined =>
    broadcastIndex(shape.slice(0, -2), whole.slice(0, -2), index.slice(0, -2));
  const [own, other] = [lead(a), lead(b)];
  if (own === undefined || other === undefined) return undefined;
  return multiplied(node, of(left!, [...own, index.at(-2)!, 0]), of(right!, [...other, 0, index.at(-1)!]));
};

/** A sum of products that sums over nothing. */
const einsum: Rule = ({ node, index, of }) => {
  const equation = /^\s*([a-zA-Z]+)\s*,\s*([a-zA-Z]+)\s*->\s*([a-zA-Z]+)\s*$/.exec(String(node.attrs["equation"]));
  if (equation === null) return undefined;
  const [, first, second, result] = equation;
  if (Array.from(first + second).some((label) => !result.includes(label))) return undefined;
  const at = (labels: string): Dim[] => Array.from(labels, (label) => index[result.indexOf(label)]);
  return multiplied(node, of(node.inputs[0]!, at(first)), of(node.inputs[1]!, at(second)));
};

/** Whole numbers that lie between the ends anyway. */
const clip: Rule = ({ node, index, of, ranges }) => {
  const element = of(node.inputs[0]!, index);
  if (element.kind !== "integer") return undefined;
  const [low, high] = [node.inputs[1], node.inputs[2]].map(
    (end) =>
      end &&
      of(
        end,
        (end.fact?.shape ?? []).map(() => 0),
      ),
  );
  const within = (gap: (end: Dim) => Dim, end: Element | undefined): boolean =>
    end === undefined || (end.kind === "integer" && ranges.isNeverNegative(gap(end.value)));
  const { value } = element;
  const fits = within((end) => subtractDims(value, end), low) && within((end) => subtractDims(end, value), high);
  return fits ? element : undefined;
};

const kept: Rule = unary(() => undefined);
const keptPair: Rule = binary(() => undefined);

/** Rules by operator. */
export const valueRules: Readonly<Record<string, Rule | undefined>> = {
  Abs: unary((element, { ranges }) => {
    const number = constantOf(element);
    if (number !== undefined) return numeric(Math.abs(number));
    return element.kind === "integer" && ranges.isNeverNegative(element.value) ? element : undefined;
  }),
  Add: binary(sum),
  And: logic("and"),
  Cast: cast,
  CastLike: cast,
  Ceil: kept,
  Clip: clip,
  ConstantOfShape: constantOfShape,
  Cos: kept,
  CumSum: cumSum,
  Div: binary(quotient),
  Einsum: einsum,
  Equal: binary(equal),
  Erf: kept,
  Exp: kept,
  Floor: kept,
  Greater: binary(compare(1, 1)),
  GreaterOrEqual: binary(compare(1, 0)),
  IsInf: kept,
  IsNaN: kept,
  Less: binary(compare(-1, 1)),
  LessOrEqual: binary(compare(-1, 0)),
  Log: kept,
  MatMul: outer,
  Max: binary(extreme(1)),
  Min: binary(extreme(-1)),
  Mod: binary(rest),
  Mul: binary(product),
  Neg: unary(negated),
  Not: (question) => {
    const operands = operandsOf(question);
    return operands && not(operands[0]);
  },
  Or: logic("or"),
  Pad: pad,
  Pow: keptPair,
  Range: range,
  Reciprocal: kept,
  Round: kept,
  Sigmoid: kept,
  Sign: kept,
  Sin: kept,
  Sqrt: kept,
  Sub: binary(difference),
  Tanh: kept,
  Trilu: trilu,
  Where: where,
  Xor: binary(unequal),
};
