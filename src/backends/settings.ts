/** What each backend lets callers set, by the backend's name: the part of a session's options that rooms above only hand on. */
import type { OptionNames } from "../base/option-names.js";
import type { WasmSettings } from "./wasm/settings.js";
import type { WebgpuSettings } from "./webgpu/settings.js";

/** Settings by backend. */
export interface BackendSettings {
  /** For "wasm". */
  readonly wasm?: WasmSettings;
  /** For "webgpu". */
  readonly webgpu?: WebgpuSettings;
}

/** Their names. */
export const backendSettingNames: OptionNames<BackendSettings> = { wasm: true, webgpu: true };
