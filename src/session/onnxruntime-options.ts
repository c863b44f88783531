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
  /** onnxruntime's: checked, and without effect. */
  readonly interOpNumThreads?: number;
  /** onnxruntime's: checked, and without effect. */
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** onnxruntime's: checked, and without effect. */
  readonly enableCpuMemArena?: boolean;
  /** onnxruntime's: checked, and without effect. */
  readonly enableMemPattern?: boolean;
  /** onnxruntime's: checked, and without effect. */
  readonly executionMode?: "sequential" | "parallel";
  /** onnxruntime's: checked, and without effect. */
  readonly optimizedModelFilePath?: string;
  /** onnxruntime's: checked, and without effect. */
  readonly enableProfiling?: boolean;
  /** onnxruntime's: checked, and without effect. */
  readonly profileFilePrefix?: string;
  /** onnxruntime's: checked, and without effect. */
  readonly logId?: string;
  /** onnxruntime's: checked, and without effect. */
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
  /** onnxruntime's: checked, and without effect. */
  readonly logVerbosityLevel?: number;
  /** Outputs for which it is "gpu-buffer" stay on the device, where the session has one. */
  readonly preferredOutputLocation?: DataLocation | Readonly<Record<string, DataLocation>>;
  /** onnxruntime's: checked, and without effect. */
  readonly enableGraphCapture?: boolean;
  /** onnxruntime's: checked, and without effect. */
  readonly extra?: Record<string, unknown>;
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
  /** onnxruntime's: checked, and without effect. */
  readonly logSeverityLevel?: 0 | 1 | 2 | 3 | 4;
  /** onnxruntime's: checked, and without effect. */
  readonly logVerbosityLevel?: number;
  /** True refuses the run: there is none under way that it could end. */
  readonly terminate?: boolean;
  /** onnxruntime's: checked, and without effect. */
  readonly tag?: string;
  /** onnxruntime's: checked, and without effect. */
  readonly extra?: Record<string, unknown>;
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
