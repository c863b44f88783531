/**
 * Fast paths of element-wise operators: an expression over operands becomes a little program for the `elementwise` kernel, which
 * computes in float32 and rounds once. Operands are broadcast by strides; nothing is copied.
 */
import { instruction, operationCode } from "../../../wasm-kernels/jobs.js";
import type { Operand } from "../../../graph/kernel.js";
import { type Recorder, wasmFamily } from "../../../wasm-kernels/wasm-kernel.js";
import { byteLengthOf } from "../../../tensor/element-type.js";
import { type Rows, rowsOf } from "./layout.js";
import { joinDimensions } from "../rules/layout.js";
import { codeOf, floatsOnly, partsFor } from "./work.js";

/** What computes from one or two values. */
export type Operation = Exclude<keyof typeof operationCode, "load" | "store" | "constant">;

/** A value of the chain: an operand, a number, or what an operation makes of others. One object is computed once. */
export type Expression =
  | { readonly kind: "operand"; readonly operand: Operand }
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "operation"; readonly operation: Operation; readonly from: readonly Expression[] };

/** An operand, broadcast to the output. */
export const operand = (from: Operand): Expression => ({ kind: "operand", operand: from });

/** A number. */
export const number = (value: number): Expression => ({ kind: "number", value });

/** An operation on one value or two. */
export const apply = (operation: Operation, ...from: Expression[]): Expression => ({
  kind: "operation",
  operation,
  from,
});

/** An output, and what it becomes. */
export interface Assignment {
  readonly output: Operand;
  readonly value: Expression;
}

/** Fast paths of operators with one output that is an expression of their operands. */
export const elementwise = wasmFamily<Assignment>({
  accepts: ({ output, value }) => expressible(value, output),
  record: ({ output, value }, recorder) => recordExpression(recorder, value, output),
});

/** True if the kernel can compute the expression into the output, else why not. */
export function expressible(expression: Expression, output: Operand): true | string {
  const types = floatsOnly([output, ...operandsOf(expression)]);
  if (types !== true) return types;
  const grid = gridOf(expression, output);
  return typeof grid === "string" ? grid : true;
}

/** Queues the computation of an expression that `expressible` holds of. */
export function recordExpression(recorder: Recorder, expression: Expression, output: Operand): void {
  const grid = gridOf(expression, output);
  if (typeof grid === "string" || output.view.size === 0) return;
  const steps = stepsOf(expression);
  const work =
    grid.rows *
    (8 + grid.columns * steps.reduce((sum, step) => sum + costOf(step), output.type === "float32" ? 0.1 : 0.5));
  const bases = new Map(operandsOf(expression).map((from) => [from, recorder.address(from)]));
  for (const starts of grid.starts) {
    const places = new Map(grid.operands.map((from, at) => [from, at]));
    const program = steps.flatMap((step) => {
      if (step.kind !== "load") return wordsOf(step);
      const at = places.get(step.operand)!;
      return wordsOf({
        ...step,
        address: bases.get(step.operand)! + byteLengthOf(step.operand.type, starts[at]),
        rowStride: grid.rowStrides[at],
        columnStride: grid.columnStrides[at],
      });
    });
    const out = places.get(output)!;
    program.push(
      ...wordsOf({
        kind: "store",
        first: steps.at(-1)!.target,
        type: codeOf(output.type),
        address: recorder.address(output) + byteLengthOf(output.type, starts[out]),
        rowStride: grid.rowStrides[out],
        columnStride: 1,
      }),
    );
    recorder.run(
      "elementwise",
      { program: recorder.words(program), instructions: steps.length + 1, rows: grid.rows, columns: grid.columns },
      partsFor(recorder, work),
    );
  }
}

/** The operands of an expression, each once. */
function operandsOf(expression: Expression): readonly Operand[] {
  if (expression.kind === "operand") return [expression.operand];
  return expression.kind === "number" ? [] : [...new Set(expression.from.flatMap(operandsOf))];
}

/** Output and operands seen as [rows, columns], once or several times. */
interface Grid extends Rows {
  readonly operands: readonly Operand[];
  readonly columns: number;
  readonly columnStrides: readonly number[];
}

function gridOf(expression: Expression, output: Operand): Grid | string {
  const operands = [output, ...operandsOf(expression)];
  const { shape, strides } = joinDimensions(
    output.shape,
    operands.map(({ view }) => view.broadcastTo(output.shape).strides),
  );
  const last = shape.length - 1;
  const columnStrides = strides.map((own) => own[last] ?? 1);
  // Where the innermost elements lie apart, each is a row of its own.
  const together = columnStrides[0] === 1 && columnStrides.every((stride) => stride === 0 || stride === 1);
  const rows = rowsOf(
    together ? { shape: shape.slice(0, -1), strides: strides.map((own) => own.slice(0, -1)) } : { shape, strides },
  );
  if (rows === undefined) return "operands are broadcast, or have gaps, along too many dimensions";
  return {
    ...rows,
    operands,
    columns: together ? (shape[last] ?? 1) : 1,
    columnStrides: together ? columnStrides : strides.map(() => 1),
  };
}

type Step =
  | { readonly kind: "load"; readonly target: number; readonly operand: Operand; readonly type: number }
  | { readonly kind: "constant"; readonly target: number; readonly immediate: number }
  | {
      readonly kind: Operation;
      readonly target: number;
      readonly first: number;
      readonly second: number;
    };

/** The expression as instructions for eight registers, the result in the last one's target. */
function stepsOf(expression: Expression): readonly Step[] {
  const uses = new Map<Expression, number>();
  const count = (value: Expression): void => {
    const before = uses.get(value) ?? 0;
    uses.set(value, before + 1);
    if (before === 0 && value.kind === "operation") value.from.forEach(count);
  };
  count(expression);
  const steps: Step[] = [];
  const held = new Map<Expression, number>();
  const free = [7, 6, 5, 4, 3, 2, 1, 0];
  const compute = (value: Expression): number => {
    const known = held.get(value);
    if (known !== undefined) return known;
    const from = value.kind === "operation" ? value.from : [];
    const registers = from.map(compute);
    // A register is free again after its value's last use: the instruction that reads it last may write it.
    for (const used of from) {
      const left = uses.get(used)! - 1;
      uses.set(used, left);
      if (left === 0) free.push(held.get(used)!);
    }
    const target = free.pop()!;
    held.set(value, target);
    if (value.kind === "operand")
      steps.push({ kind: "load", target, operand: value.operand, type: codeOf(value.operand.type) });
    else if (value.kind === "number") steps.push({ kind: "constant", target, immediate: value.value });
    else steps.push({ kind: value.operation, target, first: registers[0], second: registers.at(-1)! });
    return target;
  };
  compute(expression);
  return steps;
}

/** Nanoseconds an element, about. */
function costOf(step: Step): number {
  switch (step.kind) {
    case "load":
      return step.operand.type === "float32" ? 0.1 : 0.4;
    case "constant":
      return 0.05;
    case "exponential":
    case "sigmoid":
    case "silu":
    case "geluTanh":
    case "softplus":
      return 1.5;
    case "tanh":
    case "gelu":
    case "errorFunction":
      return 2.5;
    default:
      return 0.1;
  }
}

/** The words of one instruction; fields that are left out are 0. */
function wordsOf(
  step: { readonly kind: keyof typeof operationCode } & Readonly<
    Partial<Record<Exclude<keyof typeof instruction, "operation">, number>>
  >,
): { readonly word?: number; readonly number?: number }[] {
  const fields: Readonly<Record<string, number | string | undefined>> = {
    ...step,
    operation: operationCode[step.kind],
  };
  return Object.entries(instruction).map(([name, kind]) => {
    const value = Number(fields[name] ?? 0);
    return kind === "number" ? { number: value } : { word: value };
  });
}
