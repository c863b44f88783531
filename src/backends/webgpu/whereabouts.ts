/** Where the values of a program are while it is bound: on the device, on the host, or known beforehand; and which steps that leaves to the host. */
import { isKnownShape } from "../../graph/dim.js";
import type { Value } from "../../graph/graph.js";
import type { Program, Step } from "../../plan/program.js";
import { type ElementType, traitsOf } from "../../tensor/element-type.js";
import { AbsentElements, absentView } from "../../tensor/deferred.js";
import { elementCount, type View } from "../../tensor/view.js";
import type { DevicePlace } from "./buffers.js";
import { mostHostElements } from "./needs.js";

/** The values that were met so far. */
export class Whereabouts {
  readonly #program: Program;
  /** Those that lie on the device, and where. */
  readonly device: Map<Value, DevicePlace> = new Map();
  /** Those that are fed or computed on the host. */
  readonly host: Set<Value> = new Set();

  constructor(program: Program) {
    this.#program = program;
  }

  /** What never changes: what is fed need not be what it stands in for. */
  constantOf(value: Value): View | undefined {
    return this.#program.constants.get(value) ?? (this.host.has(value) ? undefined : value.initializer);
  }

  /** What never changes and is kept with the model's weights: they themselves, and what only a file has. */
  weightOf(value: Value): View | undefined {
    const constant = this.constantOf(value);
    return constant !== undefined && (constant === value.initializer || absentView(constant)) ? constant : undefined;
  }

  /** Throws `AbsentElements` for what the host is to look at, and only a file has. */
  checkHeld(value: Value): void {
    const constant = this.host.has(value) ? undefined : this.constantOf(value);
    const absent = constant && absentView(constant);
    if (absent !== undefined) throw new AbsentElements(absent.elements);
  }

  /** True if the host has the value, or knows it. */
  isHere(value: Value): boolean {
    const isWeight = value.initializer !== undefined && !this.device.has(value);
    return this.host.has(value) || this.#program.constants.has(value) || isWeight;
  }

  factOf(value: Value): { readonly type: ElementType; readonly shape: readonly number[] } | undefined {
    const constant = this.constantOf(value);
    if (constant !== undefined) return constant;
    const fact = this.#program.facts.get(value);
    return isKnownShape(fact?.shape) ? { type: fact!.type, shape: fact!.shape } : undefined;
  }

  /** True for what a device can hold: its shape is known, and it is no text. */
  hasShape(value: Value): boolean {
    const fact = this.factOf(value);
    return fact !== undefined && fact.type !== "string";
  }
}

/** True for steps that only show an operand under another shape. */
export const isView = ({ placements }: Step): boolean =>
  placements.every((each) => each === undefined || (each.kind === "shared" && each.effect === "view"));

/** True for steps on small whole numbers whose operands are all on the host: nothing is gained by bringing them over. */
export const belongsToHost = ({ node, placements }: Step, values: Whereabouts): boolean =>
  node.inputs.every((value) => value === undefined || values.isHere(value)) &&
  placements.every(
    (each) =>
      each === undefined ||
      (each.kind !== "dynamic" &&
        traitsOf(each.type).kind !== "float" &&
        elementCount(each.shape) <= mostHostElements &&
        !(each.kind === "shared" && each.effect === "update")),
  );
