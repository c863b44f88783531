/** The options of `InferenceSession.create`, insitu's own and onnxruntime's, read into one form. */
import { type BackendChoice, type BackendName, type FallbackPolicy, mostThreads } from "../backends/backend.js";
import { type BackendSettings, backendSettingNames } from "../backends/settings.js";
import { checkCallback, checkFlag, choiceOf, numberError, objectOf, optionsOf } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { OptionNames } from "../base/option-names.js";
import { valueText } from "../base/value-text.js";
import { checkLoadOptions, loadOptionNames, type LoadOptions, type WeightOptions } from "../onnx/load-options.js";
import type { Model } from "../onnx/model.js";
import type { Level } from "../passes/optimize.js";
import type { Activations } from "../passes/set-activations.js";
import type { PairNames } from "../plan/named-pairs.js";
import type { InPlacePolicy } from "../plan/plan.js";
import { readOutputLocations, type StaysOnDevice } from "./output-locations.js";
import {
  checkIgnoredOptions,
  type ExecutionProvider,
  type IgnoredSessionOptions,
  ignoredSessionOptionNames,
} from "./onnxruntime-options.js";

import type { LoadProgress } from "./load-progress.js";
import type { Session } from "./session.js";

export type { InPlacePolicy } from "../plan/plan.js";

/** Whether a decoder whose caches grow is rewritten: "auto" if it can be (`explain` says why not), "require" throws if it cannot, "never". */
export type RewritePolicy = "auto" | "require" | "never";

/** What becomes of presents in runs without a state: kept inside where that changes no result (`explain` tells why not), or copied. */
type PresentsPolicy = "keep" | "copy";

/** What a model is changed for. */
export interface ChangedOn {
  readonly isDevice: boolean;
  /** For language models: has work done while weights come. */
  readonly meanwhile?: (work: WhileWeightsCome) => void;
}

/** Work with a session whose weights are on their way; `tell` hears of pipelines that are compiled. */
export type WhileWeightsCome = (session: Session, tell: (ready: number, total: number) => void) => Promise<void>;

/** Options of `InferenceSession.create`. Options of onnxruntime that insitu does not need are checked and ignored. */
export interface SessionOptions extends WeightOptions, BackendSettings, IgnoredSessionOptions {
  /**
   * Called as the model is loaded: bytes, from 0 to the total, which grows once if weights are in other files than the model; then the phase, and shaders
   * that are compiled meanwhile.
   */
  readonly onProgress?: ((loaded: number, total: number, progress: LoadProgress) => void) | undefined;
  /**
   * What computes: "wasm" (CPU), "webgpu" (GPU), "reference" (slow, for comparison), or "auto" for the fastest that is available and can hold the model.
   * @default "wasm"
   */
  readonly backend?: BackendName | "auto" | undefined;
  /**
   * What happens to operators that the GPU has no kernel for: "host" computes them on the CPU, which `explain` reports; "never" throws.
   * @default "host"
   */
  readonly fallback?: FallbackPolicy | undefined;
  /**
   * "prefer" updates caches in place where that is proved safe and copies otherwise, which `explain` reports; "require" throws instead of copying;
   * "never" always copies.
   * @default "prefer"
   */
  readonly inPlace?: InPlacePolicy | undefined;
  /**
   * Threads in all, from 1 to 64, or 0 for the default. Workers are shared by all sessions.
   * @default as many as the machine has
   */
  readonly threads?: number | undefined;
  /**
   * Which output becomes which input's next content in a state, by input name. `createState` can override it.
   * @default found by the graph and by names
   */
  readonly pairs?: PairNames | undefined;
  /**
   * Rewrites a decoder whose caches grow into one that writes them in place, as `insitu rewrite` does. The session's inputs are then those of the
   * rewritten model.
   * @default "never"; "auto" for `CausalLM.load`
   */
  readonly rewrite?: RewritePolicy | undefined;
  /**
   * For programs that feed each run's presents as the next run's pasts: "keep" leaves them inside the session and updates them in place, and copies a
   * present out only when it is read; "copy" returns them like any other output.
   * @default "keep"
   */
  readonly presents?: PresentsPolicy | undefined;
  /** A function that changes the model before anything else happens, such as `pages()`. Its second argument says whether the model runs on a device. */
  readonly change?: ((model: Model, on: ChangedOn) => Model | Promise<Model>) | undefined;
  /**
   * Allows the next best choice where something is not available (one thread instead of workers, WASM instead of WebGPU), and receives what it was
   * and why. Without it, creating the session throws.
   */
  readonly onFallback?: ((message: string) => void) | undefined;
  /**
   * Computes each row the same way whatever else is in the batch, so that results do not depend on other sequences. Small batches get slower.
   * @default false
   */
  readonly batchInvariant?: boolean | undefined;
  /**
   * How products with weights of 2 to 8 bits (MatMulNBits) take activations. "int8" rounds them to 8 bits unless the file asks for floats
   * (`accuracy_level` 1 to 3), which is about twice as fast on WASM; "float" never rounds; "file" rounds where the file says `accuracy_level` 4.
   * @default "file"; "int8" for `CausalLM.load`
   */
  readonly activations?: Activations | undefined;
  /**
   * The most bytes that weights and a state may take together.
   * @default what the machine has
   */
  readonly memoryLimit?: number | undefined;
  /**
   * onnxruntime's name for `backend`, tried in order; "cpu" is the default backend. Unknown names are skipped if a known one follows.
   * @default ["cpu"]
   */
  readonly executionProviders?: readonly ExecutionProvider[] | undefined;
  /**
   * onnxruntime's name for `threads`.
   * @default as many as the machine has
   */
  readonly intraOpNumThreads?: number | undefined;
  /**
   * "disabled" runs the graph as it is in the file, "basic" removes what is redundant, the others also fuse operators.
   * @default "all"
   */
  readonly graphOptimizationLevel?: "disabled" | "basic" | "extended" | "layout" | "all" | undefined;
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
  activations: true,
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
  activations: Activations;
} {
  const inPlace = choiceOf("option inPlace", options.inPlace, ["prefer", "require", "never"], "prefer");
  const rewrite = choiceOf("option rewrite", options.rewrite, ["auto", "require", "never"], "never");
  const activations = choiceOf("option activations", options.activations, ["file", "float", "int8"], "file");
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
    activations,
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
