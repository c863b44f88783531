/** Which steps of a plan the default backend's kernels would do, for inputs of given types and shapes. Runs nothing. */
import { forecastSteps } from "../backends/wasm/forecast.js";
import type { Fact } from "../graph/fact.js";
import type { Node } from "../graph/graph.js";
import { wasmKernels } from "../ops/wasm.js";
import type { StepAccount } from "../plan/explain.js";
import type { Plan } from "../plan/plan.js";
import { compileProgram } from "../plan/program.js";

/** How every step would run, and the bytes that a run keeps between its steps. */
export function forecast(
  plan: Plan,
  inputs: readonly Fact[],
): { readonly accounts: ReadonlyMap<Node, StepAccount>; readonly arenaBytes: number } {
  const program = compileProgram(plan, inputs, { resultsInArena: true });
  return { accounts: forecastSteps(program, wasmKernels), arenaBytes: program.arenaBytes };
}
