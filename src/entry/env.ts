/**
 * onnxruntime's `env`: flags that hold for all sessions. Those that mean something here are the defaults of a session's options; the rest is
 * kept as it was set, and changes nothing.
 */
import { mostThreads } from "../backends/backend.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";
import type { SessionOptions } from "../session/options.js";

/** onnxruntime-common's names for the parts of `env`. */
export declare namespace Env {
  type WasmPathPrefix = string;
  interface WasmFilePaths {
    wasm?: URL | string;
    mjs?: URL | string;
  }
  type WasmPrefixOrFilePaths = WasmPathPrefix | WasmFilePaths;
  interface WebAssemblyFlags {
    /** Threads of sessions that name none; 0, and whatever is no whole number from 1 on, is what the machine has. */
    numThreads?: number;
    simd?: boolean | "fixed" | "relaxed";
    trace?: boolean;
    initTimeout?: number;
    wasmPaths?: WasmPrefixOrFilePaths;
    wasmBinary?: ArrayBufferLike | Uint8Array;
    proxy?: boolean;
  }
  interface WebGLFlags {
    contextId?: "webgl" | "webgl2";
    matmulMaxBatchSize?: number;
    textureCacheMode?: "initializerOnly" | "full";
    pack?: boolean;
    async?: boolean;
  }
  interface WebGpuFlags {
    profilingMode?: "off" | "default";
    profiling?: { mode?: "off" | "default"; ondata?: (data: never) => void };
    /** Which GPU sessions take that name none. */
    powerPreference?: "low-power" | "high-performance";
    forceFallbackAdapter?: boolean;
    adapter?: unknown;
    device?: unknown;
    validateInputContent?: boolean;
  }
}

/** Flags for all sessions. */
export interface Env {
  /** "warning", "info" and "verbose" let warnings be written to the console. */
  logLevel?: "verbose" | "info" | "warning" | "error" | "fatal";
  /** Part of onnxruntime's interface, without effect. */
  debug?: boolean;
  /** Part of onnxruntime's interface, without effect. */
  trace?: boolean;
  /** The version of onnxruntime-common whose surface this is, and insitu's own. */
  readonly versions: {
    readonly common: string;
    readonly insitu: string;
    readonly web?: string;
    readonly node?: string;
    readonly "react-native"?: string;
  };
  /** Flags of the WASM backend: `numThreads` means something here. */
  readonly wasm: Env.WebAssemblyFlags;
  /** Part of onnxruntime's interface, without effect. */
  readonly webgl: Env.WebGLFlags;
  /** Flags of the WebGPU backend: `powerPreference` means something here. */
  readonly webgpu: Env.WebGpuFlags;
  [name: string]: unknown;
}

const levels = ["verbose", "info", "warning", "error", "fatal"] as const;
let level: (typeof levels)[number] = "warning";

/** The flags of this copy of insitu. */
export const env: Env = {
  wasm: {},
  webgl: {},
  webgpu: {},
  versions: { common: "1.30.0", insitu: "0.1.0" },
  get logLevel() {
    return level;
  },
  set logLevel(given) {
    if (given === undefined) return;
    if (!levels.includes(given))
      throw new InsituError(
        "invalid-argument",
        `env.logLevel must be one of ${levels.map((name) => `"${name}"`).join(", ")}, got ${valueText(given)}`,
      );
    level = given;
  },
};

/** A session's options with what `env` has for those that are left out. Threads that cannot be had are then done without. */
export function optionsWithEnv(options: SessionOptions): SessionOptions {
  const { powerPreference } = env.webgpu;
  const { numThreads = 0 } = env.wasm;
  const named = options.threads !== undefined || options.intraOpNumThreads !== undefined;
  const isSet = !named && Number.isInteger(numThreads) && numThreads > 0;
  const prefers = powerPreference !== undefined && options.webgpu === undefined;
  if (!isSet && !prefers) return options;
  const threads = { threads: Math.min(numThreads, mostThreads), onFallback: options.onFallback ?? warn };
  return { ...options, ...(isSet ? threads : {}), ...(prefers ? { webgpu: { powerPreference } } : {}) };
}

function warn(message: string): void {
  if (levels.indexOf(level) <= levels.indexOf("warning")) console.warn(`insitu: ${message}`);
}
