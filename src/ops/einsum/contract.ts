/** Einsum's arithmetic: operands are contracted two at a time, each pair as a batch of matrix products. */
import { View } from "../../tensor/view.js";
import { multiplyOperands, type Operand, operandOf, storeOperand } from "../shared/families/matmul.js";
import { product } from "../shared/loops/rows.js";
import { float64Scratch, int32Scratch, int64Scratch } from "../shared/loops/scratch.js";
import type { Indices } from "./equation.js";

/** A tensor whose axes have index names, each at most once. */
interface Term {
  readonly names: readonly string[];
  readonly view: View;
}

/** Computes the contraction of the operands into `out`; `sizes` holds the size of every index. */
export function contract(
  operands: readonly View[],
  indices: Indices,
  sizes: ReadonlyMap<string, number>,
  out: View,
): void {
  if (out.size === 0) return;
  let terms = operands.map((view, position) => diagonal(view, indices.terms[position], sizes));
  const uses = new Map<string, number>();
  for (const { names } of terms) for (const name of names) uses.set(name, (uses.get(name) ?? 0) + 1);
  const wanted = new Set(indices.output);
  // What an index is still needed for: the output, or a term other than the given ones.
  const needed = (name: string, ...used: Term[]): boolean =>
    wanted.has(name) || uses.get(name)! > used.filter((term) => term.names.includes(name)).length;
  const alone = (term: Term): Term => {
    const kept = sumOut(term, (name) => needed(name, term));
    for (const name of term.names) if (!kept.names.includes(name)) uses.set(name, uses.get(name)! - 1);
    return kept;
  };
  terms = terms.map(alone);
  while (terms.length > 1) {
    const [first, ...others] = terms;
    const resultSize = (other: Term): number => {
      const names = new Set([...first.names, ...other.names]);
      return product([...names].filter((name) => needed(name, first, other)).map((name) => sizes.get(name)!));
    };
    const next = others.reduce((best, other) => (resultSize(other) < resultSize(best) ? other : best));
    const joined = multiply(first, next, (name) => needed(name, first, next));
    for (const name of [...first.names, ...next.names]) uses.set(name, uses.get(name)! - 1);
    for (const name of joined.names) uses.set(name, uses.get(name)! + 1);
    terms = [joined, ...others.filter((other) => other !== next)];
  }
  storeOperand(out, arranged(terms[0], indices.output));
}

/** The operand with repeated indices taken along their diagonal, and without those it only stretches to a larger size. */
function diagonal(view: View, names: readonly string[], sizes: ReadonlyMap<string, number>): Term {
  const kept: { name: string; size: number; stride: number }[] = [];
  for (const name of new Set(names)) {
    const axes = names.flatMap((other, axis) => (other === name && view.shape[axis] !== 1 ? [axis] : []));
    if (axes.length === 0 && sizes.get(name) !== 1) continue;
    kept.push({ name, size: sizes.get(name)!, stride: axes.reduce((sum, axis) => sum + view.strides[axis], 0) });
  }
  const shape = kept.map(({ size }) => size);
  const strides = kept.map(({ stride }) => stride);
  return { names: kept.map(({ name }) => name), view: new View(view.type, shape, view.data, view.offset, strides) };
}

/** The term's elements with its axes in the given order. */
const arranged = (term: Term, names: readonly string[]): Operand =>
  operandOf(term.view.transpose(names.map((name) => term.names.indexOf(name))));

function termOf(names: readonly string[], shape: readonly number[], { kind, values }: Operand): Term {
  const type = kind === "float" ? "float64" : kind === "wide" ? "int64" : "int32";
  return { names, view: new View(type, shape, values) };
}

/** The term summed over every index that is not to be kept. */
function sumOut(term: Term, keeps: (name: string) => boolean): Term {
  const kept = term.names.filter(keeps);
  if (kept.length === term.names.length) return term;
  const shape = kept.map((name) => term.view.shape[term.names.indexOf(name)]);
  const rows = product(shape);
  const summed = term.names.filter((name) => !kept.includes(name));
  const length = product(summed.map((name) => term.view.shape[term.names.indexOf(name)]));
  return termOf(kept, shape, sumRows(arranged(term, [...kept, ...summed]), rows, length));
}

function sumRows(operand: Operand, rows: number, length: number): Operand {
  if (operand.kind === "wide") {
    const values = int64Scratch(rows);
    for (let row = 0; row < rows; row++)
      for (let i = 0; i < length; i++) values[row] += operand.values[row * length + i];
    return { kind: "wide", values };
  }
  const values = operand.kind === "float" ? float64Scratch(rows) : int32Scratch(rows);
  for (let row = 0; row < rows; row++) for (let i = 0; i < length; i++) values[row] += operand.values[row * length + i];
  return values instanceof Int32Array ? { kind: "integer", values } : { kind: "float", values };
}

/** The product of two terms, summed over the indices they share that are not to be kept. */
function multiply(a: Term, b: Term, keeps: (name: string) => boolean): Term {
  const shared = a.names.filter((name) => b.names.includes(name));
  const batch = shared.filter(keeps);
  const inner = shared.filter((name) => !keeps(name));
  const left = a.names.filter((name) => !shared.includes(name));
  const right = b.names.filter((name) => !shared.includes(name));
  const dims = (term: Term, names: readonly string[]): number[] =>
    names.map((name) => term.view.shape[term.names.indexOf(name)]);
  const sizes = { m: product(dims(a, left)), k: product(dims(a, inner)), n: product(dims(b, right)) };
  const batches = product(dims(a, batch));
  const starts = (step: number): Float64Array => float64Scratch(batches).map((_, i) => i * step);
  const result = multiplyOperands(
    arranged(a, [...batch, ...left, ...inner]), // [batch, m, k]
    arranged(b, [...batch, ...right, ...inner]), // [batch, n, k]
    { sizes, a: starts(sizes.m * sizes.k), b: starts(sizes.n * sizes.k) },
    true,
  );
  return termOf([...batch, ...left, ...right], [...dims(a, batch), ...dims(a, left), ...dims(b, right)], result);
}
