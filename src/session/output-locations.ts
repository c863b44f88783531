/**
 * onnxruntime's `preferredOutputLocation`: outputs that stay in the memory of a device, as tensors that `getData()` brings and that later runs
 * of the session take as they lie. An output whose shape only data decide comes to the host.
 */
import type { Places } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import { isKnownShape } from "../graph/dim.js";
import type { Value } from "../graph/graph.js";
import type { Program } from "../plan/program.js";
import type { Tensor } from "../tensor/tensor.js";
import { makeResultSlot, type SlotOwner } from "./slots.js";

/** Tells for an output's name whether it stays on a device; undefined where none does. */
export type StaysOnDevice = (output: string) => boolean;

/** Where results may be asked to be. Onnxruntime has others, for textures and for tensors of WebNN. */
const locations = ["cpu", "cpu-pinned", "gpu-buffer"];

/** Reads the option: one place for all outputs, or one by name. */
export function readOutputLocations(option: unknown): StaysOnDevice | undefined {
  if (option === undefined) return undefined;
  const check = (what: string, location: unknown): void => {
    if (locations.includes(location as string)) return;
    throw new InsituError(
      "invalid-argument",
      `${what} must be one of ${locations.map((each) => `"${each}"`).join(", ")}, got ${valueText(location)}`,
      { as: typeof location === "string" ? "RangeError" : "TypeError" },
    );
  };
  if (typeof option !== "object" || option === null) {
    check("option preferredOutputLocation", option);
    return option === "gpu-buffer" ? () => true : undefined;
  }
  const entries = Object.entries(option);
  for (const [name, location] of entries) check(`option preferredOutputLocation[${valueText(name)}]`, location);
  const onDevice = new Set(entries.flatMap(([name, location]) => (location === "gpu-buffer" ? [name] : [])));
  return onDevice.size === 0 ? undefined : (output) => onDevice.has(output);
}

/** The targets of a run, with a place on the device for each output that stays there and has no tensor of the caller's. */
export function targetsOnDevice(
  targets: ReadonlyMap<Value, Tensor | null>,
  stays: StaysOnDevice | undefined,
  program: Program,
  owner: SlotOwner,
  places: Places,
): ReadonlyMap<Value, Tensor | null> {
  if (stays === undefined) return targets;
  return new Map(
    [...targets].map(([value, target]) => {
      const fact = program.facts.get(value);
      const fits = target === null && stays(value.name) && isKnownShape(fact?.shape) && fact.type !== "string";
      return [value, fits ? makeResultSlot(owner, places, value, fact.type, fact.shape) : target];
    }),
  );
}
