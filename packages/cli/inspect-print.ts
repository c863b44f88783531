/** `insitu inspect --print`: the nouns between a file and a run, each as it prints itself. */
import { printGraph } from "#insitu/explain/print-graph.js";
import type { Model } from "#insitu/onnx/model.js";
import { printModel } from "#insitu/explain/print-model.js";
import type { Plan } from "#insitu/plan/plan.js";
import { printProgram } from "#insitu/explain/print-program.js";
import type { Program } from "#insitu/plan/program.js";
import { UsageError } from "./usage.js";

/** What there is to print. */
interface Printable {
  readonly model: Model;
  readonly plan: Plan;
  /** Undefined where sizes are `missing`. */
  readonly program: Program | undefined;
  readonly missing: readonly string[];
}

/** The noun that was asked for, as text for a terminal. */
export function printed(noun: string | boolean, { model, plan, program, missing }: Printable): string {
  switch (noun) {
    case "model":
      return printModel(model).trimEnd();
    case "graph":
      return printGraph(plan.graph);
    case "program":
      if (program !== undefined) return printProgram(program);
      throw new UsageError(
        `--print program needs every size of the inputs: ${missing.length === 0 ? "some have no name that --dims could give" : `give --dims ${missing.map((name) => `${name}=…`).join(",")}`}`,
      );
    default:
      throw new UsageError(`--print must be model, graph or program, got "${noun}"`);
  }
}
