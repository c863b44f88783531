/** A program bound to places, as it is run: what is done one after the other, and where its outputs are then. Made by binding.ts, run by run.ts. */
import { InsituError } from "../../base/error.js";
import type { Node, Value } from "../../graph/graph.js";
import type { Program, Step } from "../../plan/program.js";
import { traitsOf } from "../../tensor/element-type.js";
import { Placed } from "../../tensor/placed.js";
import { View } from "../../tensor/view.js";
import type { Measure } from "../../webgpu-kernels/measures.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import type { Transfer } from "../backend.js";
import type { StepAccount } from "../step-account.js";
import type { DeviceBuffer, DevicePlace } from "./buffers.js";
import type { KeptChecks } from "./kept-checks.js";
import type { Landing } from "./landing.js";
import type { ReadyDispatch } from "./session.js";

/** What was sent to a buffer last, where nothing but uploads writes it: the same bytes need not be sent again. */
export interface Sent {
  readonly bytes: Uint8Array;
  isHeld: boolean;
}

/** A number that is found of values on the host: one for all that ask the same. */
export interface HostNumber {
  readonly of: readonly Value[];
  readonly measure: Measure;
}

/** The runs in which a number lies within these bounds. */
export interface HostRange {
  readonly number: HostNumber;
  readonly least: number;
  readonly most: number;
}

/** A dispatch, and in which runs it is done: in those that lie in all of these. */
export interface BoundDispatch extends ReadyDispatch {
  readonly only: readonly HostRange[];
}

/** What a run does, one after the other. */
export type Action =
  | { readonly kind: "check"; readonly checks: KeptChecks }
  /** Dispatches that follow each other with nothing to do in between. */
  | { readonly kind: "dispatches"; readonly all: readonly BoundDispatch[] }
  /** Brings a value from the host to a buffer that holds nothing else, or into a cache. */
  | {
      readonly kind: "upload";
      readonly value: Value;
      readonly to: DevicePlace;
      readonly intoCache: boolean;
      readonly sent?: Sent | undefined;
    }
  /** Lays values of the host side by side in a buffer that holds nothing else: each from a byte on. */
  | {
      readonly kind: "lay";
      readonly values: readonly Value[];
      readonly at: readonly number[];
      readonly to: DevicePlace;
      readonly sent: Sent;
      /** What is sent, made anew in each run. */
      readonly laid: View;
    }
  | { readonly kind: "download"; readonly value: Value; readonly from: DevicePlace }
  /** Computes a step on the host. */
  | { readonly kind: "host"; readonly step: Step }
  /** Keeps a cache until the run is over: something may still refuse it. */
  | { readonly kind: "keep"; readonly cache: DevicePlace; readonly copy: DeviceBuffer }
  /** From here on caches have been overwritten that nothing can put back. */
  | { readonly kind: "overwrites" };

/** What is copied from place to place by whole words. */
export interface Delivery {
  readonly from: DevicePlace;
  readonly to: DevicePlace;
}

/** A program that is ready to run. */
export interface BoundRun {
  readonly program: Program;
  /** Where inputs lie that stay on the device, by position. */
  readonly caches: readonly (DevicePlace | undefined)[];
  readonly arena: readonly DeviceBuffer[];
  /** Outputs that are wanted, with where on the device; null for the host. */
  readonly wanted: ReadonlyMap<Value, DevicePlace | null>;
  /** Outputs that are computed. */
  readonly needed: ReadonlySet<Value>;
  readonly actions: readonly Action[];
  /** True if the host has something to wait for before all is submitted, or when it is: an output in memory that the next run writes. */
  readonly waits: boolean;
  /** Outputs that stay on the device, and those that are brought to the host when all is done. */
  readonly outputs: ReadonlyMap<Value, DevicePlace>;
  readonly landings: ReadonlyMap<Value, Landing>;
  /** Outputs that are brought to where the caller wants them on the device. */
  readonly deliveries: readonly Delivery[];
  readonly accounts: ReadonlyMap<Node, StepAccount>;
  readonly transfers: readonly Transfer[];
  release(): void;
}

/** True for what the host has to wait for, or to be able to undo. */
export const isWait = (action: Action): boolean =>
  action.kind === "download" || action.kind === "keep" || (action.kind === "upload" && action.intoCache);

/** The action that lays values side by side. */
export const layingOf = (
  values: readonly Value[],
  at: readonly number[],
  buffer: DeviceBuffer,
): Action & { readonly kind: "lay" } => ({
  kind: "lay",
  values,
  at,
  to: new Placed("uint8", [buffer.bytes], buffer),
  sent: { bytes: new Uint8Array(buffer.bytes), isHeld: false },
  laid: View.allocate("uint8", [buffer.bytes]),
});

/** A small upload to a buffer that nothing else writes need not be made again while its bytes are the same. */
export function sparing(action: Action, written: ReadonlySet<DeviceBuffer>): Action {
  if (action.kind !== "upload" || action.intoCache || written.has(action.to.buffer)) return action;
  const { byteLength } = action.to;
  return byteLength > keeping.mostComparedBytes
    ? action
    : { ...action, sent: { bytes: new Uint8Array(byteLength), isHeld: false } };
}

/** What was to be sent may not have been. */
export function forgetSent({ actions }: BoundRun): void {
  for (const action of actions)
    if ((action.kind === "upload" || action.kind === "lay") && action.sent !== undefined) action.sent.isHeld = false;
}

/** The copy of an output to where it is wanted on the device; throws for one that no copy of whole words makes. */
export function deliveryOf(value: Value, from: DevicePlace, to: DevicePlace): Delivery {
  if (from.contiguous && to.contiguous && traitsOf(to.type).bits % 32 === 0 && from.buffer !== to.buffer)
    return { from, to };
  throw new InsituError("unsupported-type", `output "${value.name}", ${from}, cannot be left on the device as ${to}`);
}
