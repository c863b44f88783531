/**
 * Which steps of a program fast paths would serve, told without running anything: operands are views without bytes, laid out as the program
 * says. Feeds and caches are taken to lie together; what only data tell, such as indices out of range, is not foreseen.
 */
import { isKnownShape } from "../../graph/dim.js";
import type { Fact } from "../../graph/fact.js";
import type { Node, Value } from "../../graph/graph.js";
import { chooseKernel, type Kernel, type KernelTable } from "../../graph/kernel.js";
import { dynamicStep, type StepAccount } from "../step-account.js";
import type { Placement } from "../../plan/layout.js";
import type { Plan } from "../../plan/plan.js";
import { compileProgram, type Program } from "../../plan/program.js";
import { traitsOf } from "../../tensor/element-type.js";
import { View } from "../../tensor/view.js";
import type { Forecast } from "../backend.js";
import { kernelCallOf } from "../kernel-call.js";

const nothing = new Uint8Array(0);

/** What each node of a program would run by. Nodes that the program does without are left out. */
function forecastSteps(program: Program, kernels: KernelTable<Kernel>): ReadonlyMap<Node, StepAccount> {
  const views = new Map<Value, View>(program.constants);
  let next = program.arenaBytes;
  for (const value of program.plan.graph.inputs) {
    const fact = program.facts.get(value);
    if (!isKnownShape(fact?.shape)) continue;
    const view = new View(fact!.type, fact!.shape, nothing, Math.ceil((next * 8) / (traitsOf(fact!.type).bits || 8)));
    next += view.byteLength + 64;
    views.set(value, view);
  }
  const accounts = new Map<Node, StepAccount>();
  for (const step of program.steps) {
    const { node, placements, dynamic } = step;
    if (dynamic) {
      accounts.set(node, dynamicStep);
      continue;
    }
    const outputs = placements.map((placement) => placement && placed(placement, views));
    node.outputs.forEach((value, at) => value && outputs[at] && views.set(value, outputs[at]));
    const inputs = node.inputs.map((value) => value && (views.get(value) ?? value.initializer));
    const unforeseen = node.inputs.some((value, at) => value !== undefined && inputs[at] === undefined);
    const { kernel, reasons } = unforeseen
      ? { kernel: undefined, reasons: ["a step before it runs dynamically"] }
      : chooseKernel(kernels, node.op, kernelCallOf(program, step, inputs, outputs));
    const shows = placements.every((each) => each === undefined || (each.kind === "shared" && each.effect === "view"));
    accounts.set(node, kernel === undefined ? { runs: "reference", reasons } : { runs: shows ? "nothing" : "kernel" });
  }
  return accounts;
}

function placed(placement: Placement, views: ReadonlyMap<Value, View>): View | undefined {
  switch (placement.kind) {
    case "arena": {
      const { type, shape, offset } = placement;
      return new View(type, shape, nothing, (offset * 8) / traitsOf(type).bits);
    }
    case "shared": {
      const source = views.get(placement.with) ?? placement.with.initializer;
      return source && new View(placement.type, placement.shape, source.data, source.offset);
    }
    case "own":
      return new View(placement.type, placement.shape, nothing);
    case "dynamic":
      return undefined;
    default:
      return placement satisfies never;
  }
}

/** How a plan would run for inputs of these types and shapes. */
export function forecastPlan(plan: Plan, inputs: readonly Fact[], kernels: KernelTable<Kernel>): Forecast {
  const program = compileProgram(plan, inputs, { resultsInArena: true });
  return { accounts: forecastSteps(program, kernels), program };
}
