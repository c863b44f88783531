// One graph on one backend beside what it should give, and whether the pass took it.
import type { Op } from "../../../src/graph/op.js";
import { backends } from "../../../src/entry/backends.js";
import { preparedGraphOf } from "../../../src/session/load.js";
import { readNumbers } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import type { Base, Drawn } from "./draft.js";
import { type Results, resultsOf } from "./oracle.js";

export type Device = "wasm" | "webgpu";

/** The backends that are there. */
export const devices: readonly Device[] = noWebgpu === undefined ? ["wasm", "webgpu"] : ["wasm"];

const kernels = new Map<string, ((op: Op) => boolean) | undefined>(
  await Promise.all(
    devices.map(async (name) => {
      const choice = backends.find((each) => each.name === name)!;
      return [name, (await choice.load()).hasKernel] as const;
    }),
  ),
);

/** True if the pass left its mark on the graph: its operator is there, or there are fewer of those that it takes. */
export function isFused({ makes, takes }: Base, { model }: Drawn, device: Device): boolean {
  const inFile = (name: string): number => model.graph.nodes.filter(({ opType }) => opType === name).length;
  const count = (name: string): number =>
    preparedGraphOf(model, { hasKernel: kernels.get(device) }).graph.nodes.filter(({ op }) => op.name === name).length;
  if (makes !== undefined) return count(makes) > inFile(makes);
  return takes !== undefined && count(takes) < inFile(takes);
}

/** How far results of a type may be off, relative to the largest. */
const tolerances: Readonly<Record<string, number>> = { float32: 3e-4, float16: 2e-2, float64: 1e-6 };

/** Where something in between is rounded to float16, one step of it may fall otherwise. */
const roundsBetween = ({ model }: Drawn): boolean =>
  model.graph.nodes.some(({ attributes }) => {
    const to = attributes.get("to");
    return to?.kind === "int" && to.value === 10n;
  });

/** Where results differ; an empty string where they do not. */
export function difference(drawn: Drawn, actual: Results, expected: Results): string {
  const rounding = roundsBetween(drawn) ? 3e-3 : 0;
  for (const [name, tensor] of Object.entries(expected)) {
    if (!(name in actual)) return `${name} is missing`;
    const [a, b] = [actual[name].toView(), tensor.toView()];
    if (String(a) !== String(b)) return `${name}: ${String(a)} for ${String(b)}`;
    const [x, y] = [readNumbers(a), readNumbers(b)];
    let top = 1;
    for (let at = 0; at < y.length; at++) top = Math.max(top, Math.abs(y[at]));
    for (let at = 0; at < y.length; at++)
      if (!(Math.abs(x[at] - y[at]) <= Math.max(rounding, tolerances[a.type] ?? 0) * top))
        return `${name}[${at}]: ${x[at]} for ${y[at]}`;
  }
  return "";
}

/** True if all results are numbers that rounding does not run away with. */
export const isTame = (results: Results): boolean =>
  Object.values(results).every((tensor) => readNumbers(tensor.toView()).every((number) => Math.abs(number) < 1e4));

/** What a backend makes of a graph: nothing to say where it is right. */
export async function problemOf(drawn: Drawn, device: Device, expected: Results): Promise<string> {
  try {
    return difference(drawn, await resultsOf(drawn, { backend: device, threads: 1 }), expected);
  } catch (error) {
    return error instanceof Error ? error.message.slice(0, 200) : String(error);
  }
}
