/** The options of `InferenceSession.create`, insitu's own and onnxruntime's, read into one form. */
import { type BackendChoice, type FallbackPolicy, mostThreads } from "../backends/backend.js";
import { type BackendSettings, backendSettingNames } from "../backends/settings.js";
import { checkCallback, checkFlag, choiceOf, numberError, objectOf, optionsOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { checkLoadOptions, loadOptionNames, type LoadOptions } from "../onnx/load-options.js";
import type { Model } from "../onnx/model.js";
import type { Level } from "../passes/optimize.js";
import type { PairNames } from "../plan/named-pairs.js";
import type { InPlacePolicy } from "../plan/plan.js";
import { readOutputLocations, type StaysOnDevice } from "./output-locations.js";
import {
  checkIgnoredOptions,
  type ExecutionProvider,
  type IgnoredSessionOptions,
  ignoredSessionOptionNames,
} from "./onnxruntime-options.js";

export type { InPlacePolicy } from "../plan/plan.js";

/** When a decoder whose caches grow is rewritten: where it is understood (`explain` tells why not), always or not at all. */
export type RewritePolicy = "auto" | "require" | "never";

/** What becomes of presents in runs without a state: kept inside where that changes no result (`explain` tells why not), or copied. */
type PresentsPolicy = "keep" | "copy";

/** How a session is made. Options of onnxruntime that insitu has no use for are checked and ignored. */
export interface SessionOptions extends LoadOptions, BackendSettings, IgnoredSessionOptions {
  /** The name of a backend, or "auto" for the fastest that is there and can hold the model; "wasm" when left out. */
  readonly backend?: string;
  /** What becomes of operators that a device has no kernel for: "host", the default, computes them there and tells it, "never" refuses. */
  readonly fallback?: FallbackPolicy;
  /** "prefer" writes caches in place where that is proved and copies where not, which `explain` tells; "require" refuses to copy; "never" always copies. */
  readonly inPlace?: InPlacePolicy;
  /** Threads in all, at most 64; what the machine has when left out, or 0. Those beside the calling one are workers that all sessions share. */
  readonly threads?: number;
  /** The output that becomes each input's next content in a state, by input name; `createState` may name others. */
  readonly pairs?: PairNames;
  /** Rewrites a decoder whose caches grow, as `insitu rewrite` does: inputs are then those of the rewritten model. "never" by default. */
  readonly rewrite?: RewritePolicy;
  /**
   * For decoders that are fed each run's presents as the next run's pasts: "keep" leaves them inside, so that such a run goes on in place, and
   * brings a present out when it is read, where that changes no result. "keep" by default; "copy" makes presents results like others.
   */
  readonly presents?: PresentsPolicy;
  /** A step from model to model before anything else is done with it: `pages()` is one. It is told what the model is to run on. */
  readonly change?: (model: Model, on: { readonly isDevice: boolean }) => Model | Promise<Model>;
  /**
   * Allows the next best choice where the backend cannot have what it needs (one thread where workers are refused; where the backend itself cannot run WASM in
   * place of WebGPU, else the reference backend, which is slow), and hears which it was and why. Without it, creating the session fails.
   */
  readonly onFallback?: (message: string) => void;
  /**
   * True computes a row of a product, or a query of an attention, alike whatever other rows a run has: what a text comes to does not depend on
   * the texts beside it. Few rows at a time take longer then.
   */
  readonly batchInvariant?: boolean;
  /** The most bytes that weights and a state may take together; what the machine has when left out. */
  readonly memoryLimit?: number;
  /** onnxruntime's name for `backend`, tried in order: "cpu" is the default backend. Unknown ones are passed over if a known one follows. */
  readonly executionProviders?: readonly ExecutionProvider[];
  /** onnxruntime's name for `threads`. */
  readonly intraOpNumThreads?: number;
  /** "disabled" runs the graph as the file has it, "basic" without what is redundant, the others with fused operators. */
  readonly graphOptimizationLevel?: "disabled" | "basic" | "extended" | "layout" | "all";
}

/** Names that are insitu's alone: whoever says one of them knows what it talks to. */
const ownNames: OptionNames<
  Omit<SessionOptions, keyof LoadOptions | keyof IgnoredSessionOptions | keyof typeof sharedNames>
> = {
  backend: true,
  fallback: true,
  inPlace: true,
  threads: true,
  pairs: true,
  rewrite: true,
  presents: true,
  change: true,
  onFallback: true,
  batchInvariant: true,
  memoryLimit: true,
  ...backendSettingNames,
};

/** onnxruntime's names that mean something here. */
const sharedNames = { executionProviders: true, intraOpNumThreads: true, graphOptimizationLevel: true } as const;

/** The names of all of them. */
export const sessionOptionNames: OptionNames<SessionOptions> = {
  ...ownNames,
  ...sharedNames,
  ...loadOptionNames,
  ...ignoredSessionOptionNames,
};

/** True for options in onnxruntime's words alone: of a program for it, which lets unknown ones be. */
export const isOnnxruntimes = (options: object): boolean => {
  const names = Object.keys(options);
  return (
    names.some((name) => Object.hasOwn(sharedNames, name) || Object.hasOwn(ignoredSessionOptionNames, name)) &&
    !names.some((name) => Object.hasOwn(ownNames, name))
  );
};

/** What a caller gave as options of a session: names that nobody knows are refused, but to programs for onnxruntime. */
export function sessionOptionsOf(given: unknown): SessionOptions {
  const what = "'options' of a session";
  const options = objectOf<SessionOptions>(what, given as SessionOptions | undefined);
  return isOnnxruntimes(options) ? options : optionsOf<SessionOptions>(what, options, sessionOptionNames);
}

/** The options, checked, with defaults filled in. `choices` are the backends that there are, the best first. */
export function readOptions(
  options: SessionOptions,
  choices: readonly BackendChoice[],
): {
  /** The backends to try, in this order: one, unless the caller leaves the choice open or names several. */
  candidates: readonly BackendChoice[];
  /** True where the caller leaves the choice open. */
  automatic: boolean;
  /** What the caller set for a backend alone. */
  settingsOf: (choice: BackendChoice) => unknown;
  fallback: FallbackPolicy;
  inPlace: InPlacePolicy;
  threads: number | undefined;
  level: Level;
  rewrite: RewritePolicy;
  presents: PresentsPolicy;
  /** Outputs that are to stay on a device. */
  staysOnDevice: StaysOnDevice | undefined;
  batchInvariant: boolean;
} {
  const inPlace = choiceOf("option inPlace", options.inPlace, ["prefer", "require", "never"], "prefer");
  const rewrite = choiceOf("option rewrite", options.rewrite, ["auto", "require", "never"], "never");
  const presents = choiceOf("option presents", options.presents, ["keep", "copy"], "keep");
  const levels = ["disabled", "basic", "extended", "layout", "all"] as const;
  const asked = choiceOf("option graphOptimizationLevel", options.graphOptimizationLevel, levels, "all");
  const level = asked === "disabled" || asked === "basic" ? asked : "all";
  checkFlag("option batchInvariant", options.batchInvariant);
  checkCallback("option change", options.change);
  checkCallback("option onFallback", options.onFallback);
  const { memoryLimit } = options;
  if (memoryLimit !== undefined && !(typeof memoryLimit === "number" && memoryLimit >= 0))
    throw new InsituError(
      "invalid-argument",
      `option memoryLimit must be a number of bytes, got ${valueText(memoryLimit)}`,
    );
  checkLoadOptions(options);
  checkIgnoredOptions(options);
  const threads = readThreads(options, "threads") ?? readThreads(options, "intraOpNumThreads");
  const fallback = choiceOf("option fallback", options.fallback, ["host", "never"], "host");
  const candidates =
    options.backend === automatic
      ? choices.filter((each) => each.automatic !== undefined).toSorted((a, b) => a.automatic! - b.automatic!)
      : chooseBackends(options, choices);
  const staysOnDevice = readOutputLocations(options.preferredOutputLocation);
  if (staysOnDevice !== undefined && !candidates.some(({ isDevice }) => isDevice === true))
    throw new InsituError(
      "invalid-argument",
      `option preferredOutputLocation: "gpu-buffer" needs a backend with memory of its own, got ${candidates.map(({ name }) => `"${name}"`).join(", ")}; leave it out, or ask for "cpu"`,
    );
  const settingsOf = ({ name }: BackendChoice): unknown =>
    Object.hasOwn(options, name) ? options[name as keyof BackendSettings] : undefined;
  return {
    candidates,
    automatic: options.backend === automatic,
    settingsOf,
    fallback,
    inPlace,
    threads: threads === 0 ? undefined : threads,
    level,
    rewrite,
    presents,
    staysOnDevice,
    batchInvariant: options.batchInvariant === true,
  };
}

/** Leaves the choice of a backend open. */
const automatic = "auto";

/** A number of threads; 0 stands for what the machine has. */
function readThreads(options: SessionOptions, name: "threads" | "intraOpNumThreads"): number | undefined {
  const threads = options[name];
  if (threads === undefined || (Number.isInteger(threads) && threads >= 0 && threads <= mostThreads)) return threads;
  throw new InsituError(
    "invalid-argument",
    `option ${name} must be a whole number from 0 to ${mostThreads}, got ${valueText(threads)}; 0 is what the machine has`,
    { as: numberError(threads) },
  );
}

/** onnxruntime's name for what runs everywhere. */
const everywhere = "cpu";

function chooseBackends(options: SessionOptions, choices: readonly BackendChoice[]): readonly BackendChoice[] {
  const { backend, executionProviders = [] } = options;
  const named = (name: string): BackendChoice | undefined => choices.find((choice) => choice.name === name);
  const words = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(", ");
  const known = choices.map(({ name }) => name);
  if (backend !== undefined) {
    const choice = named(backend);
    if (choice !== undefined) return [choice];
    throw new InsituError(
      "invalid-argument",
      `option backend must be one of ${words([automatic, ...known])}, got ${valueText(backend)}`,
    );
  }
  const refuse = (got: unknown): never => {
    throw new InsituError(
      "invalid-argument",
      `option executionProviders must be a list of names, or of objects with a name, got ${valueText(got)}`,
      { as: "TypeError" },
    );
  };
  if (!Array.isArray(executionProviders)) return refuse(executionProviders);
  const names = Array.from(executionProviders as readonly unknown[], (provider) => {
    const name = typeof provider === "object" && provider !== null ? (provider as { name?: unknown }).name : provider;
    return typeof name === "string" ? name : refuse(executionProviders);
  });
  // onnxruntime passes over providers that it does not have, as long as one is left.
  const found = new Set(names.flatMap((name) => (name === everywhere ? choices[0] : named(name)) ?? []));
  if (names.length > 0 && found.size === 0)
    throw new InsituError(
      "invalid-argument",
      `option executionProviders: none of ${valueText(names)} is here; there are ${words([everywhere, ...known])}`,
    );
  return found.size === 0 ? [choices[0]] : [...found];
}
