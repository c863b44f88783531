/** What each backend lets callers set, by the backend's name: the part of a session's options that rooms above only hand on. */
import type { OptionNames } from "../base/option-names.js";
import type { WasmSettings } from "./wasm/settings.js";
import type { WebgpuSettings } from "./webgpu/settings.js";

/** Settings that only one backend has, by the name of the backend. */
export interface BackendSettings {
  /**
   * Settings of the WASM backend.
   * @default {}
   */
  readonly wasm?: WasmSettings | undefined;
  /**
   * Settings of the WebGPU backend.
   * @default {}
   */
  readonly webgpu?: WebgpuSettings | undefined;
}

/** Their names. */
export const backendSettingNames: OptionNames<BackendSettings> = { wasm: true, webgpu: true };
