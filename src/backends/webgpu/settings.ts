/** The options that only the WebGPU backend has, under `webgpu` in a session's options. */
import { InsituError } from "../../base/error.js";
import { checkCallback, checkFlag, choiceOf } from "../../base/arguments.js";
import { checkOptionNames, type OptionNames } from "../../base/option-names.js";
import { valueText } from "../../base/value-text.js";

/** Settings of the WebGPU backend. */
export interface WebgpuSettings {
  /**
   * Which GPU to use where there are several.
   * @default "high-performance"
   */
  readonly powerPreference?: "high-performance" | "low-power" | undefined;
  /**
   * False does not use subgroups.
   * @default true
   */
  readonly subgroups?: boolean | undefined;
  /**
   * False does not use float16 in shaders.
   * @default true
   */
  readonly f16?: boolean | undefined;
  /**
   * False does not use subgroup matrices.
   * @default true
   */
  readonly subgroupMatrices?: boolean | undefined;
  /**
   * Whether `CausalLM.load` compiles the shaders of the first prompt while weights come. They are compiled with the first prompt otherwise.
   * @default true, and false where a program plays the GPU
   */
  readonly compileAhead?: boolean | undefined;
  /** Called while a run waits for its shaders: how many pipelines are compiled, of how many. */
  readonly onPipelines?: ((ready: number, total: number) => void) | undefined;
}

const webgpuSettingNames: OptionNames<WebgpuSettings> = {
  powerPreference: true,
  subgroups: true,
  f16: true,
  subgroupMatrices: true,
  compileAhead: true,
  onPipelines: true,
};

/** The settings, checked. */
export function readWebgpuSettings(given: unknown = {}): WebgpuSettings {
  if (typeof given !== "object" || given === null)
    throw new InsituError("invalid-argument", `option webgpu must be an object of settings, got ${valueText(given)}`);
  checkOptionNames("option webgpu", given, webgpuSettingNames);
  const { powerPreference, subgroups, f16, subgroupMatrices, compileAhead, onPipelines } = given as WebgpuSettings;
  checkFlag("option webgpu.subgroups", subgroups);
  checkFlag("option webgpu.f16", f16);
  checkFlag("option webgpu.subgroupMatrices", subgroupMatrices);
  checkFlag("option webgpu.compileAhead", compileAhead);
  checkCallback("option webgpu.onPipelines", onPipelines);
  const choices = ["high-performance", "low-power"] as const;
  const preference = choiceOf("option webgpu.powerPreference", powerPreference, choices, "high-performance");
  return {
    powerPreference: preference,
    ...(subgroups === false ? { subgroups } : {}),
    ...(f16 === false ? { f16 } : {}),
    ...(subgroupMatrices === false ? { subgroupMatrices } : {}),
    ...(compileAhead === undefined ? {} : { compileAhead }),
    ...(onPipelines === undefined ? {} : { onPipelines }),
  };
}
