// Cases of single operators run as models of one node, in every way: on each backend, with pasts that are the caller's and with pasts that
// are written in place; beside the functional reference implementation, called once without a plan.
import type { Executable } from "../../src/backends/backend.js";
import { prepareReference } from "../../src/backends/reference/reference.js";
import { InsituError } from "../../src/base/error.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { evaluate, inferOutputs } from "../../src/graph/call.js";
import { type CaseAttribute, caseAttributes, type OpCase } from "../../tools/cases/shared/case.js";
import { factOfView, knownSize } from "../../src/graph/fact.js";
import { type AttributeInput, buildModel, float, floats, node, value } from "../../src/onnx/build.js";
import { operators } from "../../src/ops/index.js";
import { makePlan, type Plan } from "../../src/plan/plan.js";
import { graphOf } from "../../src/session/load.js";
import { cloneView, copyView } from "../../src/tensor/copy.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";
import type { Variant } from "../wasm/fast-path.js";
import { compareViews } from "./compare.js";
import { bufferOn, runOn } from "./executable.js";

const modules = import.meta.glob<{ cases: readonly OpCase[] }>("../../tools/cases/*.ts", { eager: true });

/** Every case that has a result. */
export const answeredCases: readonly OpCase[] = Object.values(modules)
  .flatMap(({ cases }) => cases)
  .filter(({ throws }) => throws === undefined);

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

/** The functional reference implementation: called once, without a plan. Undefined where its result would be too large for a test. */
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
    const held = bufferOn(executable, given[at].type, given[at].shape);
    copyView(given[at], held);
    return held;
  });
  let outcome: Outcome;
  let changed = "";
  try {
    const results = await runOn(executable, views);
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
    return text(actual) === text(wanted) ? "" : `got ${text(actual)}; the reference implementation: ${text(wanted)}`;
  }
  if ("refusal" in actual) return `got ${actual.refusal}; the reference implementation ran`;
  return wanted.outputs.map((view, at) => compareViews(actual.outputs[at], view, { tolerance })).join("");
}

/** What roundings of 16 bits may be off. */
const tolerance = 5e-3;

/** Runs a call in every way; what differs from the reference implementation. */
export async function problemsOf(
  variants: readonly Variant[],
  example: OpCase,
  what: string,
  counts: Counts,
): Promise<string[]> {
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

/** What became of calls. */
export interface Counts {
  refused: number;
  ran: number;
  inPlace: number;
}

/** Prints what became of calls. */
export function report({ refused: no, ran, inPlace }: Counts, what: string): void {
  console.log(`${what}: ${no} calls were refused, ${ran} ran, ${inPlace} of all in place`);
}
