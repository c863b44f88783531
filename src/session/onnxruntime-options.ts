/**
 * onnxruntime's options that say nothing to insitu, of a session and of a run: checked as there, then let be. Those that mean something are
 * read in options.ts.
 */
import {
  checkChoice,
  checkCount,
  checkFlag,
  checkName,
  checkObject,
  checkRule,
  numberError,
} from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";

/** Where onnxruntime puts data; insitu has "cpu", and "gpu-buffer" where a backend has a device. */
type DataLocation = "none" | "cpu" | "cpu-pinned" | "texture" | "gpu-buffer" | "ml-tensor";

/** A backend by its name, with settings that are onnxruntime's own. */
export type ExecutionProvider =
  | string
  | { readonly name: string }
  | ({ readonly name: string } & Readonly<Record<string, unknown>>);

/** Options of a session that change nothing here. */
export interface IgnoredSessionOptions {
  /** Part of onnxruntime's options: checked, without effect. */
  readonly interOpNumThreads?: number | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly freeDimensionOverrides?: Readonly<Record<string, number>> | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly enableCpuMemArena?: boolean | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly enableMemPattern?: boolean | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly executionMode?: "sequential" | "parallel" | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly optimizedModelFilePath?: string | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly enableProfiling?: boolean | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly profileFilePrefix?: string | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly logId?: string | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4 | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly logVerbosityLevel?: number | undefined;
  /**
   * Outputs for which this is "gpu-buffer" stay on the GPU.
   * @default "cpu"
   */
  readonly preferredOutputLocation?: DataLocation | Readonly<Record<string, DataLocation>> | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly enableGraphCapture?: boolean | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly extra?: Record<string, unknown> | undefined;
}

/** Their names. */
export const ignoredSessionOptionNames: OptionNames<IgnoredSessionOptions> = {
  interOpNumThreads: true,
  freeDimensionOverrides: true,
  enableCpuMemArena: true,
  enableMemPattern: true,
  executionMode: true,
  optimizedModelFilePath: true,
  enableProfiling: true,
  profileFilePrefix: true,
  logId: true,
  logSeverityLevel: true,
  logVerbosityLevel: true,
  preferredOutputLocation: true,
  enableGraphCapture: true,
  extra: true,
};

/** onnxruntime's options of a run. */
export interface OnnxruntimeRunOptions {
  /** Part of onnxruntime's options: checked, without effect. */
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4 | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly logVerbosityLevel?: number | undefined;
  /**
   * True throws before the run begins.
   * @default false
   */
  readonly terminate?: boolean | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly tag?: string | undefined;
  /** Part of onnxruntime's options: checked, without effect. */
  readonly extra?: Record<string, unknown> | undefined;
}

/** Their names. */
export const onnxruntimeRunOptionNames: OptionNames<OnnxruntimeRunOptions> = {
  logSeverityLevel: true,
  logVerbosityLevel: true,
  terminate: true,
  tag: true,
  extra: true,
};

/** Throws for an option of a session that is not what onnxruntime has it to be. */
export function checkIgnoredOptions(options: IgnoredSessionOptions): void {
  checkCount("option interOpNumThreads", options.interOpNumThreads);
  for (const name of ["enableCpuMemArena", "enableMemPattern", "enableProfiling", "enableGraphCapture"] as const)
    checkFlag(`option ${name}`, options[name]);
  for (const name of ["optimizedModelFilePath", "profileFilePrefix", "logId"] as const)
    checkName(`option ${name}`, options[name]);
  checkChoice("option executionMode", options.executionMode, ["sequential", "parallel"]);
  if (options.freeDimensionOverrides !== undefined)
    checkObject("option freeDimensionOverrides", options.freeDimensionOverrides);
  checkLogOptions("option ", options);
}

/** Throws for options of a run that are not what onnxruntime has them to be, and where the run is told to end. */
export function checkRunOptions(options: OnnxruntimeRunOptions): void {
  checkLogOptions("option ", options);
  checkName("option tag", options.tag);
  checkFlag("option terminate", options.terminate);
  if (options.terminate === true)
    throw new InsituError("invalid-argument", "option terminate is true: the run was not begun");
}

function checkLogOptions(
  what: string,
  {
    logSeverityLevel,
    logVerbosityLevel,
    extra,
  }: Pick<OnnxruntimeRunOptions, "logSeverityLevel" | "logVerbosityLevel" | "extra">,
): void {
  checkRule(
    `${what}logSeverityLevel`,
    logSeverityLevel,
    "a whole number from 0 to 4",
    [0, 1, 2, 3, 4].includes(logSeverityLevel as number),
    numberError(logSeverityLevel),
  );
  checkCount(`${what}logVerbosityLevel`, logVerbosityLevel);
  if (extra !== undefined) checkObject(`${what}extra`, extra);
}
