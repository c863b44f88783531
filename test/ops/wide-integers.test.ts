// Integers of 64 bits that no 32 bits hold: every operator that takes some is called, on every backend and in place where it updates, with
// its cases' integers moved by multiples of 2^32, which cutting would undo, and beyond 2^53, where floats stop telling them apart; and
// with integer attributes of that size. What comes of it, or the refusal, is that of the functional slow truth, and what is refused
// writes nothing.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Executable } from "../../src/backends/backend.js";
import { prepareReference } from "../../src/backends/reference/reference.js";
import { InsituError } from "../../src/base/error.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { evaluate, inferOutputs } from "../../src/graph/call.js";
import { type CaseAttribute, caseAttributes, type OpCase } from "../../src/graph/case.js";
import { factOfView, knownSize } from "../../src/graph/fact.js";
import { type AttributeInput, buildModel, float, floats, node, value } from "../../src/onnx/build.js";
import { operators } from "../../src/ops/index.js";
import { makePlan, type Plan } from "../../src/plan/plan.js";
import { graphOf } from "../../src/session/load.js";
import { cloneView, copyView } from "../../src/tensor/copy.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import { compareViews } from "../support/compare.js";
import { openVariant, type Variant } from "../wasm/fast-path.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../src/ops/*/cases.ts", { eager: true });
const soak = process.env["INSITU_SOAK"] !== undefined;

const low = 2n ** 32n;
/** What becomes of an integer. */
const moves: readonly ((value: bigint) => bigint)[] = [
  (value) => value + low,
  (value) => value - low,
  (value) => value + 3n * low,
  (value) => value - 2n ** 40n,
  (value) => value + 2n ** 53n + 1n,
  (value) => value - 2n ** 62n,
  () => 2n ** 63n - 1n,
  () => -(2n ** 63n),
];

let variants: readonly Variant[];
beforeAll(async () => {
  variants = [await openVariant(1, true), await openVariant(2, false)];
});
afterAll(() => variants.forEach(({ session }) => session.release()));

function attributeOf(given: CaseAttribute): AttributeInput {
  if (given instanceof View) return Tensor.fromView(given);
  if (typeof given === "object" && "float" in given) return float(given.float);
  if (typeof given === "object" && "floats" in given) return floats(given.floats);
  return given as AttributeInput;
}

const wantedOf = (example: OpCase): boolean[] => example.outputs?.map((view) => view !== undefined) ?? [true];

/** A plan of the case's node alone: its pasts are the caller's, or held and written in place. */
function planOf({ inputs, ...example }: OpCase, pasts: "caller" | "state"): Plan {
  const { op, domain = "", opset, attrs = {} } = example;
  const names = inputs.map((view, at) => (view === undefined ? "" : `x${at}`));
  const results = wantedOf({ inputs, ...example }).map((wanted, at) => (wanted ? `y${at}` : ""));
  const given = Object.fromEntries(Object.entries(attrs).map(([name, each]) => [name, attributeOf(each)]));
  const model = buildModel({
    opset: domain === "" ? opset : { "": 24, [domain]: opset },
    inputs: inputs.flatMap((view, at) => (view === undefined ? [] : [value(`x${at}`, view.type, [...view.shape])])),
    outputs: results.filter((name) => name !== "").map((name) => value(name)),
    nodes: [node(op, names, results, given, { name: "case", domain })],
  });
  return makePlan(graphOf(model), { pasts });
}

type Outcome = { readonly refusal: string; readonly code: string } | { readonly outputs: readonly View[] };

const refused = (error: unknown): Outcome => {
  if (!(error instanceof InsituError)) throw error;
  return { refusal: error.message.replace(/^cache "[^"]*": /, ""), code: error.code };
};

const none = (): never => {
  throw new Error("cases have no subgraphs");
};

/** The functional slow truth: called once, without a plan. Undefined where its result would be too large for a test. */
function truth(example: OpCase): Outcome | undefined {
  const { inputs } = example;
  const op = operators.find(example.domain ?? "", example.op, example.opset)!;
  const label = `${example.op} "case"`;
  try {
    const attrs = readAttributes(op.attrs, caseAttributes(example.attrs), label);
    const call = { op, label, opset: example.opset, attrs, wanted: wantedOf(example) };
    const facts = inputs.map((view) => view && factOfView(view));
    if (inferOutputs(call, facts, none).some((fact) => (knownSize(fact) ?? 0) > 2 ** 20)) return undefined;
    return { outputs: evaluate(call, inputs, facts, none, none).filter((view) => view !== undefined) };
  } catch (error) {
    return refused(error);
  }
}

/** One run of a plan; held operands are those that an output may update. What a refusal changed is told. */
async function run(executable: Executable, inputs: readonly (View | undefined)[]): Promise<[Outcome, string]> {
  const { plan } = executable;
  const updated = new Set(plan.inPlace.values());
  const given = inputs.filter((view) => view !== undefined);
  const views = plan.graph.inputs.map((input, at) => {
    if (!updated.has(input)) return given[at];
    const held = executable.allocate(given[at].type, given[at].shape);
    copyView(given[at], held);
    return held;
  });
  let outcome: Outcome;
  let changed = "";
  try {
    const results = await executable.run(executable.programFor(views), views);
    outcome = { outputs: plan.graph.outputs.map((output) => cloneView(results.get(output)!)) };
  } catch (error) {
    outcome = refused(error);
    views.forEach((view, at) => (changed ||= compareViews(view, given[at]) && `operand ${at} was written`));
  }
  for (const [at, input] of plan.graph.inputs.entries()) if (updated.has(input)) executable.free(views[at]);
  return [outcome, changed];
}

function difference(actual: Outcome, wanted: Outcome, tolerance: number): string {
  if ("refusal" in wanted) {
    const text = (outcome: Outcome): string => {
      if (!("refusal" in outcome)) return "it ran";
      // How much memory is too much is each backend's own matter.
      return outcome.code === "out-of-memory" ? outcome.code : `${outcome.code}: ${outcome.refusal}`;
    };
    return text(actual) === text(wanted) ? "" : `got ${text(actual)}; the slow truth: ${text(wanted)}`;
  }
  if ("refusal" in actual) return `got ${actual.refusal}; the slow truth ran`;
  return wanted.outputs.map((view, at) => compareViews(actual.outputs[at], view, { tolerance })).join("");
}

const isInteger = (view: View | undefined): view is View => view?.type === "int64" && view.size > 0;
const all = Object.values(modules)
  .flatMap(({ cases }) => cases)
  .filter(({ throws }) => throws === undefined);

/** What roundings of 16 bits may be off. */
const tolerance = 5e-3;

/** Runs a call in every way; what differs from the slow truth. */
async function problemsOf(example: OpCase, what: string, counts: Counts): Promise<string[]> {
  const { inputs } = example;
  const wanted = truth(example);
  if (wanted === undefined) return [];
  const problems: string[] = [];
  for (const pasts of ["caller", "state"] as const) {
    let plan: Plan;
    try {
      plan = planOf(example, pasts);
    } catch (error) {
      // Shapes and attributes may be refused before anything is planned.
      const problem = difference(refused(error), wanted, 0);
      if (problem !== "") problems.push(`${what}, planned: ${problem}`);
      counts.refused++;
      continue;
    }
    // A cache that grows has a reserve around it, which is a state's matter.
    const grows = plan.order.some(({ op }) => Object.values(op.effects).some((effect) => "grows" in effect));
    if (pasts === "state" && (plan.inPlace.size === 0 || grows)) continue;
    const ways: (readonly [string, Executable])[] = [
      ["reference", prepareReference(plan)],
      ...variants.map(({ name, session }) => [name, session.prepare(plan)] as const),
    ];
    for (const [way, executable] of ways) {
      try {
        const [outcome, changed] = await run(executable, inputs);
        const problem = difference(outcome, wanted, Math.max(tolerance, example.tolerance ?? 0)) || changed;
        if (problem !== "") problems.push(`${what}, ${pasts}, ${way}: ${problem}`);
      } catch (error) {
        problems.push(`${what}, ${pasts}, ${way}: ${String(error)}`);
      }
      counts["refusal" in wanted ? "refused" : "ran"]++;
      if (pasts === "state") counts.inPlace++;
    }
  }
  return problems;
}

interface Counts {
  refused: number;
  ran: number;
  inPlace: number;
}

function report({ refused: no, ran, inPlace }: Counts, what: string): void {
  console.log(`${what}: ${no} calls were refused, ${ran} ran, ${inPlace} of all in place`);
}

test("operands of 64 bits", async () => {
  const problems: string[] = [];
  const counts = { refused: 0, ran: 0, inPlace: 0 };
  const seen = new Set<string>();
  for (const [number, example] of all.entries()) {
    for (const [at, operand] of example.inputs.entries()) {
      if (!isInteger(operand)) continue;
      seen.add(example.op);
      for (const [kind, move] of moves.entries()) {
        // In the tests one of four: which ones, the case's number decides.
        if (!soak && (kind + number) % 4 !== 0) continue;
        const moved = cloneView(operand);
        const values = moved.data as BigInt64Array;
        const position = (kind * 5 + number) % operand.size;
        values[position] = move(values[position]);
        const what = `${example.op}-${example.opset}: ${example.shows}; operand ${at} is ${values.join()}`;
        problems.push(...(await problemsOf({ ...example, inputs: example.inputs.with(at, moved) }, what, counts)));
      }
    }
  }
  report(counts, `${seen.size} operators`);
  expect(problems).toEqual([]);
  expect(counts.refused).toBeGreaterThan(500);
  expect(counts.inPlace).toBeGreaterThan(100);
});

test("attributes of more than 32 bits", async () => {
  const problems: string[] = [];
  const counts = { refused: 0, ran: 0, inPlace: 0 };
  for (const [number, example] of all.entries()) {
    const { op, domain = "", opset } = example;
    for (const [name, { kind }] of Object.entries(operators.find(domain, op, opset)!.attrs)) {
      if (kind !== "int") continue;
      const given = example.attrs?.[name];
      if (given !== undefined && typeof given !== "number") continue;
      for (const [at, by] of [2 ** 32, -(2 ** 32), 2 ** 31, 2 ** 53 - 2 ** 33].entries()) {
        if (!soak && (at + number) % 4 !== 0) continue;
        const attrs = { ...example.attrs, [name]: (given ?? 0) + by };
        const what = `${op}-${opset}: ${example.shows}; ${name} is ${(given ?? 0) + by}`;
        problems.push(...(await problemsOf({ ...example, attrs }, what, counts)));
      }
    }
  }
  report(counts, "attributes");
  expect(problems).toEqual([]);
  expect(counts.refused).toBeGreaterThan(200);
  expect(counts.ran).toBeGreaterThan(50);
});
