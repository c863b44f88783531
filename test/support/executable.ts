// Executables of host backends, run without a session around them.
import type { Executable } from "../../src/backends/backend.js";
import type { Value } from "../../src/graph/graph.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { hostView, type View } from "../../src/tensor/view.js";

/** Runs a plan for these inputs: the outputs themselves, until the next run. */
export function runOn(executable: Executable, inputs: readonly View[]): Promise<ReadonlyMap<Value, View>> {
  const wanted = new Map(executable.plan.graph.outputs.map((value) => [value, null]));
  return executable.run(
    executable.programFor(inputs),
    inputs,
    wanted,
    (outputs) => new Map([...outputs].map(([value, place]) => [value, hostView(place)])),
  );
}

/** A buffer of the backend's, as for the plan's first input. */
export function bufferOn(executable: Executable, type: ElementType, shape: readonly number[]): View {
  const [cache] = executable.plan.graph.inputs;
  return hostView(executable.allocate([{ cache, type, shape }])[0]);
}
