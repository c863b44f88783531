/** Runs a bound program: encodes its dispatches, and does on the host, in between, what is to be done there. */
import { InsituError } from "../../base/error.js";
import { callReference } from "../../graph/call.js";
import type { Value } from "../../graph/graph.js";
import { bodyOf } from "../../graph/infer.js";
import type { Step } from "../../plan/program.js";
import { copyView } from "../../tensor/copy.js";
import { Placed } from "../../tensor/placed.js";
import { View } from "../../tensor/view.js";
import { type Environment, runBody, runDynamically } from "../body.js";
import { checksOf } from "../bound-program.js";
import type { BoundRun } from "./binding.js";
import type { DeviceBuffer, DevicePlace } from "./buffers.js";
import { copyDispatch, endOf } from "./copies.js";
import { encode, type ReadyDispatch, type WebgpuSession } from "./session.js";

/** Runs it. The outputs by value: those wanted as Views. */
export async function runBound(
  session: WebgpuSession,
  bound: BoundRun,
  inputs: readonly Placed[],
  results: ReadonlyMap<Value, View | null>,
): Promise<ReadonlyMap<Value, Placed>> {
  const { program, actions } = bound;
  const { device, memory } = session;
  device.check();
  const host: Environment = new Map(program.constants);
  program.plan.graph.inputs.forEach((value, at) => {
    const place = inputs[at];
    if (place instanceof View) host.set(value, place);
  });
  let waiting: ReadyDispatch[] = [];
  /** What was encoded overwrites caches; what was submitted has. */
  let [overwrites, overwrote] = [false, false];
  const submit = (): void => {
    overwrote = overwrites;
    if (waiting.length === 0) return;
    const encoder = device.gpu.createCommandEncoder();
    encode(encoder, waiting);
    device.queue.submit([encoder.finish()]);
    waiting = [];
  };
  const kept: { readonly cache: DevicePlace; readonly copy: DeviceBuffer }[] = [];
  try {
    for (const action of actions)
      switch (action.kind) {
        case "dispatch":
          waiting.push(action.ready);
          break;
        case "check":
          for (const check of checksOf(program, action.checks, host)) check();
          break;
        case "upload": {
          const view = host.get(action.value) ?? action.value.initializer!;
          // What is written to the queue comes before what waits to be encoded: nothing that waits reads the buffer of a value to come.
          if (!action.intoCache) memory.upload(view, action.to.buffer);
          else {
            submit();
            await uploadTo(session, view, action.to);
          }
          break;
        }
        case "download":
          submit();
          host.set(action.value, await memory.download(action.from));
          break;
        case "host":
          runOnHost(action.step, host);
          break;
        case "keep": {
          submit();
          copyWhole(session, action.cache.buffer, action.copy);
          kept.push(action);
          break;
        }
        case "overwrites":
          overwrites = true;
          break;
        default:
          action satisfies never;
      }
    const { landings } = bound;
    overwrote = overwrites;
    const encoder = device.gpu.createCommandEncoder();
    if (waiting.length > 0) encode(encoder, waiting);
    for (const landing of landings.values()) landing.encode(encoder);
    device.queue.submit([encoder.finish()]);
    const landed = await Promise.all([...landings.values()].map((landing) => landing.read()));
    [...landings.keys()].forEach((value, at) => host.set(value, landed[at]));
    device.check();
    const outputs = new Map<Value, Placed>(bound.outputs);
    for (const value of program.plan.graph.outputs) {
      if (outputs.has(value)) continue;
      const view = host.get(value) ?? value.initializer!;
      const target = results.get(value);
      if (target !== undefined && target !== null) copyView(view, target);
      outputs.set(value, target ?? view);
    }
    return outputs;
  } catch (cause) {
    for (const { cache, copy } of kept.toReversed()) copyWhole(session, copy, cache.buffer);
    if (!overwrote) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InsituError(
      "state-lost",
      `${reason}; caches were being written, so the state is lost: restore a saved one into it, or create a new one`,
      { cause },
    );
  }
}

function copyWhole({ device }: WebgpuSession, from: DeviceBuffer, to: DeviceBuffer): void {
  const encoder = device.gpu.createCommandEncoder();
  encoder.copyBufferToBuffer(from.gpu, 0, to.gpu, 0, from.bytes);
  device.queue.submit([encoder.finish()]);
}

/** Brings a view to a place: straight where the place is the front of its buffer, else by a copy on the device. */
async function uploadTo(session: WebgpuSession, view: View, to: DevicePlace): Promise<void> {
  if (to.offset === 0 && to.contiguous) return session.memory.upload(view, to.buffer);
  const buffer = session.memory.allocate(view.byteLength, "an upload on its way");
  session.memory.upload(view, buffer);
  const copy = copyDispatch(endOf(new Placed(to.type, to.shape, buffer)), endOf(to), session.mostWorkgroups);
  if (typeof copy === "string") throw new InsituError("internal", `an upload to ${to}: ${copy}`);
  await session.dispatch([copy]);
  session.memory.free(buffer);
}

/** Computes a step by the slow truth. */
function runOnHost(step: Step, host: Environment): void {
  const { node } = step;
  const operands = node.inputs.map((value) => value && (host.get(value) ?? value.initializer!));
  let outputs: readonly (View | undefined)[];
  if (step.dynamic) outputs = runDynamically(node, operands, host);
  else {
    const placed = step.placements.map((placement) =>
      placement === undefined || placement.kind === "dynamic"
        ? undefined
        : View.allocate(placement.type, placement.shape),
    );
    callReference(node, operands, placed, [], (attribute, given) => runBody(bodyOf(node, attribute), given, host));
    outputs = placed;
  }
  node.outputs.forEach((value, at) => {
    if (value !== undefined) host.set(value, outputs[at]!);
  });
}
