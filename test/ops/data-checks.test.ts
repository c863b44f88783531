// What an operator refuses because of its data it refuses in `validate`: a run makes those checks before it writes a cache, and
// relies on it that nothing after them is refused. Every case's integers are replaced by others, near and far out of range.
import { expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { caseAttributes, type OpCase } from "../../tools/cases/shared/case.js";
import {
  type Callable,
  callReference,
  inferOutputs,
  overwrittenParts,
  validateOperands,
} from "../../src/graph/call.js";
import { isKnownShape } from "../../src/graph/dim.js";
import { factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { isWide, writeBigInts, writeNumbers } from "../../src/tensor/access.js";
import { cloneView, copyView } from "../../src/tensor/copy.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../tools/cases/*.ts", { eager: true });

const none = (): never => {
  throw new Error("cases have no subgraphs");
};

const strange = [0, 1, 2, 3, 7, 64, 1000, -1, -2, -3, -64, -1000, 2 ** 31 - 1, -(2 ** 31)];
const wide = [...strange, 2 ** 32, 2 ** 32 + 1, -(2 ** 32), -(2 ** 32) + 1, 2 ** 40].map(BigInt);

/** The operand with some or all of its integers replaced. */
function disturbed(view: View, seed: number): View {
  const { kind, bits } = traitsOf(view.type);
  if (kind !== "integer" || bits < 32 || view.size === 0) return view;
  const copy = cloneView(view);
  const at = (position: number): boolean => seed % 2 === 0 || position === seed % view.size;
  const before = copy.data as ArrayLike<number | bigint>;
  const pick = (position: number, from: ArrayLike<number | bigint>): number | bigint =>
    at(position) ? from[(seed * 7 + position * 3) % from.length] : before[position];
  if (isWide(view.type)) {
    const values = Array.from({ length: copy.size }, (_, position) => pick(position, wide) as bigint);
    writeBigInts(copy, view.type === "uint64" ? values.map((value) => BigInt.asUintN(64, value)) : values);
  } else
    writeNumbers(
      copy,
      Array.from({ length: copy.size }, (_, position) => pick(position, strange) as number),
    );
  return copy;
}

/** Calls a case with disturbed data as a compiled program does: "refused", "ran", or undefined where only data decide shapes. */
function call(example: OpCase, seed: number): "refused" | "ran" | undefined {
  const op = operators.find(example.domain ?? "", example.op, example.opset)!;
  const label = `${example.op} "case"`;
  const wanted = example.outputs?.map((view) => view !== undefined) ?? [true];
  const inputs = example.inputs.map((view) => view && disturbed(view, seed));
  let node: Callable;
  let facts;
  try {
    const attrs = readAttributes(op.attrs, caseAttributes(example.attrs), label);
    node = { op, label, opset: example.opset, attrs, wanted };
    facts = inferOutputs(
      node,
      inputs.map((view) => view && { type: view.type, shape: view.shape }),
      none,
    );
  } catch {
    return undefined;
  }
  if (facts.some((fact, at) => node.wanted[at] && !isKnownShape(fact.shape))) return undefined;
  try {
    validateOperands(
      node,
      inputs.map((view) => view && factOfView(view)),
    );
  } catch (error) {
    expect(error).toBeInstanceOf(InsituError);
    return "refused";
  }
  const names = Object.keys(op.inputs);
  const outputNames = Object.keys(op.outputs);
  const operands = inputs.map((view) => view && cloneView(view));
  const updates = outputNames.map((name) => {
    const effect = op.effects[name];
    return effect?.kind === "update" ? operands[names.indexOf(effect.of)] : undefined;
  });
  const outputs = facts.map((fact, at) => {
    if (!node.wanted[at]) return undefined;
    const past = updates[at];
    const shape = fact.shape as readonly number[];
    return past !== undefined && past.shape.join() === shape.join() ? past : View.allocate(fact.type, shape);
  });
  const isUpdated = (at: number): boolean => outputs[at] !== undefined && outputs[at] === updates[at];
  const before = outputs.map((view) => view && cloneView(view));
  const parts = overwrittenParts(node, operands, outputs, isUpdated).map((place) => ({ place, was: cloneView(place) }));
  callReference(node, operands, outputs, facts, none);
  // What the operator says it overwrites is all that it overwrote.
  for (const { place, was } of parts.toReversed()) copyView(was, place);
  outputs.forEach((view, at) => {
    if (isUpdated(at)) expect(compareViews(view!, before[at]!, { tolerance: 0 }), `${label} overwrites`).toBe("");
  });
  return "ran";
}

test("what a reference implementation refuses on data, validate refuses; and updates overwrite what they declare", () => {
  const counts = { refused: 0, ran: 0 };
  const problems: string[] = [];
  for (const { cases } of Object.values(modules))
    for (const example of cases)
      for (let seed = 0; seed < 24; seed++) {
        const what = (): string => `${example.op}-${example.opset}: ${example.shows}, seed ${seed}`;
        let outcome;
        try {
          outcome = call(example, seed);
        } catch (error) {
          problems.push(`${what()}: ${String(error)}`);
        }
        if (outcome !== undefined) counts[outcome]++;
      }
  console.log(`${counts.ran} calls with strange integers ran, ${counts.refused} were refused`);
  expect(problems).toEqual([]);
  expect(counts.refused).toBeGreaterThan(500);
  expect(counts.ran).toBeGreaterThan(5_000);
});

test("an operator with checks on data says which operands they look at", () => {
  for (const op of operators.all) {
    if (op.validates) expect(op.looksAt.length, op.name).toBeGreaterThan(0);
    for (const name of op.looksAt) expect(Object.keys(op.inputs), op.name).toContain(name);
    expect(op.looksAt.length === 0 || op.validates, op.name).toBe(true);
  }
});
