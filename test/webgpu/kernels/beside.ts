// Runs one operator on WebGPU beside the reference, its operands fed, constant, computed on the device or lying there with gaps; tells which
// kernels did it.
import { afterAll, beforeAll, expect } from "vitest";
import type { BackendSession, Executable } from "../../../src/backends/backend.js";
import { prepareReference } from "../../../src/backends/reference/reference.js";
import { webgpuBackend } from "../../../src/backends/webgpu/webgpu.js";
import { webgpuKernels } from "../../../src/ops/webgpu.js";
import { nodePlatform } from "../../../src/platform/node.js";
import { readNumbers, writeNumbers } from "../../../src/tensor/access.js";
import type { Placed } from "../../../src/tensor/placed.js";
import { bytesIn, hostView, View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { runOn } from "../../support/executable.js";
import { differenceOf, type FastCall, planOf, seed } from "../../wasm/fast-path.js";

/** A call as it is tried on the device. */
export type DeviceCall = FastCall & {
  /** False where no kernel is to take it. */
  readonly taken?: boolean;
};

/** What a result may be off, relative to itself: devices divide and take roots as they like, and round once. */
const tolerances: Readonly<Record<string, number>> = { float32: 1e-5, float16: 2 ** -10, bfloat16: 2 ** -7 };

/** A function that tries a call on a device of its own, which is opened before the first test and closed after the last. */
export function useDevice(): (call: DeviceCall) => Promise<void> {
  let session: BackendSession | undefined;
  beforeAll(async () => {
    if (noWebgpu === undefined)
      session = await webgpuBackend(webgpuKernels).open({ platform: nodePlatform, threads: 1, settings: undefined });
  });
  afterAll(() => session?.release());
  return (call) => tryCall(session!, call);
}

async function tryCall(session: BackendSession, call: DeviceCall): Promise<void> {
  const { op, inputs, attrs = {}, taken = true } = call;
  const told = `${op} ${inputs.map((feed) => feed && `${feed.view} ${feed.as ?? "fed"}`).join(", ")} ${JSON.stringify(attrs, bigints)}, seed ${seed}`;
  const plan = planOf(call);
  const fed = inputs.flatMap((feed) => (feed === undefined || feed.as === "constant" ? [] : [feed]));
  const views = fed.map(({ view, as }) => (as === "computed" ? negated(view) : view));
  const expected = await runOn(prepareReference(plan), views);
  const executable = session.prepare(plan);
  const places = fed.map(({ as }, at) => (as === "gaps" ? withGaps(executable, views[at]) : views[at]));
  const wanted = new Map(plan.graph.outputs.map((value) => [value, null]));
  for (let round = 0; round < 2; round++) {
    const actual = await executable.run(executable.programFor(places), places, wanted, (outputs) => outputs);
    for (const [output, view] of expected) {
      const relative = call.relative ?? tolerances[view.type];
      expect(differenceOf(hostView(actual.get(output)!), view, relative, call.absolute), told).toBe("");
    }
  }
  const account = executable.describeSteps()!.get(plan.order.find(({ name }) => name === "subject")!)!;
  const nothing = [...expected.values()].every(({ size }) => size === 0);
  if (!nothing) expect(account.runs, `${told}: ${account.reasons?.join()}`).toBe(taken ? "kernel" : "reference");
}

const bigints = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

function negated(view: View): View {
  const result = View.allocate(view.type, view.shape);
  writeNumbers(
    result,
    Array.from(readNumbers(view), (x) => -x),
  );
  return result;
}

/** A place on the device with the contents of a view and gaps in every dimension, which hold what no element may be taken from. */
function withGaps(executable: Executable, view: View): Placed {
  const [cache] = executable.plan.graph.inputs;
  const shape = view.shape.map((dim) => dim + 2);
  const [whole] = executable.allocate([{ cache, type: view.type, shape }]);
  const inner = view.shape.reduce<Placed>((part, dim, axis) => part.slice(axis, 1, dim + 1), whole);
  const poison = View.allocate(view.type, shape);
  bytesIn(poison).fill(0xfe);
  executable.copy([{ from: poison, to: whole }]);
  if (view.size > 0) executable.copy([{ from: view, to: inner }]);
  return inner;
}
