/** The options that only the WASM backend has, under `wasm` in a session's options. */
import { InsituError } from "../../base/error.js";
import { checkOptionNames, type OptionNames } from "../../base/option-names.js";
import { valueText } from "../../base/value-text.js";
import { mostMemoryBytes } from "./memory.js";

/** Settings of the WASM backend. */
export interface WasmSettings {
  /**
   * False uses plain SIMD.
   * @default true, where it is available
   */
  readonly relaxedSimd?: boolean | undefined;
  /**
   * The largest size of one WebAssembly memory. A model that needs more is spread over several.
   * @default 4 GiB
   */
  readonly memoryBytes?: number | undefined;
}

const wasmSettingNames: OptionNames<WasmSettings> = { relaxedSimd: true, memoryBytes: true };

/** Bytes of a memory below which kernels have no room to work. */
const leastMemoryBytes = 2 ** 22;

/** The settings, checked, with defaults filled in. */
export function readWasmSettings(given: unknown): { readonly allowRelaxed: boolean; readonly memoryBytes: number } {
  const refuse = (what: string, rule: string, value: unknown): never => {
    throw new InsituError("invalid-argument", `option wasm${what} must be ${rule}, got ${valueText(value)}`);
  };
  if (given === undefined) return { allowRelaxed: true, memoryBytes: mostMemoryBytes };
  if (typeof given !== "object" || given === null) return refuse("", "an object of settings", given);
  checkOptionNames("option wasm", given, wasmSettingNames);
  const { relaxedSimd = true, memoryBytes = mostMemoryBytes } = given as Record<string, unknown>;
  if (typeof relaxedSimd !== "boolean") return refuse(".relaxedSimd", "true or false", relaxedSimd);
  const fits =
    typeof memoryBytes === "number" &&
    Number.isInteger(memoryBytes) &&
    memoryBytes >= leastMemoryBytes &&
    memoryBytes <= mostMemoryBytes;
  if (!fits)
    return refuse(".memoryBytes", `a whole number from ${leastMemoryBytes} to ${mostMemoryBytes}`, memoryBytes);
  return { allowRelaxed: relaxedSimd, memoryBytes };
}
