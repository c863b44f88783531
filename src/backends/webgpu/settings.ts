/** The options that only the WebGPU backend has, under `webgpu` in a session's options. */
import { InsituError } from "../../base/error.js";
import { checkFlag, choiceOf } from "../../base/arguments.js";
import { valueText } from "../../base/value-text.js";

/** How the WebGPU backend is set up. */
export interface WebgpuSettings {
  /** Which GPU is taken where there are several. "high-performance" where left out. */
  readonly powerPreference?: "high-performance" | "low-power";
  /** False does without subgroups. */
  readonly subgroups?: boolean;
  /** False does without float16 in shaders. */
  readonly f16?: boolean;
  /** False does without the matrices that subgroups multiply together, where there are any. */
  readonly subgroupMatrices?: boolean;
}

/** The settings, checked. */
export function readWebgpuSettings(given: unknown): WebgpuSettings {
  if (given === undefined) return {};
  if (typeof given !== "object" || given === null)
    throw new InsituError("invalid-argument", `option webgpu must be an object of settings, got ${valueText(given)}`);
  const { powerPreference, subgroups, f16, subgroupMatrices, ...others } = given as WebgpuSettings;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new InsituError(
      "invalid-argument",
      `option webgpu.${unknown} is not known; there are webgpu.powerPreference, webgpu.subgroups, webgpu.f16 and webgpu.subgroupMatrices`,
    );
  checkFlag("option webgpu.subgroups", subgroups);
  checkFlag("option webgpu.f16", f16);
  checkFlag("option webgpu.subgroupMatrices", subgroupMatrices);
  const choices = ["high-performance", "low-power"] as const;
  const preference = choiceOf("option webgpu.powerPreference", powerPreference, choices, "high-performance");
  return {
    powerPreference: preference,
    ...(subgroups === false ? { subgroups } : {}),
    ...(f16 === false ? { f16 } : {}),
    ...(subgroupMatrices === false ? { subgroupMatrices } : {}),
  };
}
