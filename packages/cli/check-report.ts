/** What `insitu check` tells of a model: whether it runs and why not, what of it is done by kernels, its caches, memory and speed. Runs nothing. */
import type { Backend } from "#insitu/backends/backend.js";
import { InsituError } from "#insitu/base/error.js";
import { isFilled, isHidden } from "#insitu/decoder/decoder-inputs.js";
import { pages } from "#insitu/cache/pages.js";
import { withDrawnTokens } from "#insitu/decoder/model-changes.js";
import { explainJson } from "#insitu/explain/json.js";
import type { SessionFacts } from "#insitu/explain/gather.js";
import { type BackendName, backends } from "#insitu/entry/backends.js";
import type { Model } from "#insitu/onnx/model.js";
import { roundsActivations } from "#insitu/passes/set-activations.js";
import { makePlan, type Plan } from "#insitu/plan/plan.js";
import { rewriteIfGrowing } from "#insitu/rewrite/rewrite.js";
import { preparedGraphOf } from "#insitu/session/load.js";
import { brokenRule } from "#insitu/session/broken-file.js";
import { missingOperators } from "#insitu/session/missing-operators.js";
import { weightBytesOf } from "#insitu/session/weights.js";
import type { CheckedSource } from "./check-source.js";
import { forecastMemoryOf, forecastToken, type MemoryForecast } from "./inspect-memory.js";
import { type SpeedForecast, speedForecast } from "./check-speed.js";

/** A yes, or a no with its reason. */
interface Verdict {
  readonly possible: boolean;
  readonly reason?: string;
}

/** How the steps of one token are done on a backend. */
interface KernelUse {
  readonly backend: BackendName;
  /** Steps that kernels do, and those that the reference implementation does, by operator with a reason. */
  readonly kernels: number;
  readonly reference: readonly { readonly operator: string; readonly steps: number; readonly reason: string }[];
}

/** What is known of a model that is not loaded. */
export interface CheckReport {
  readonly name: string;
  readonly variant?: string;
  readonly runs: boolean;
  /** Why it does not run, or what is missing; empty where it does. */
  readonly problems: readonly string[];
  readonly architecture?: string;
  readonly producer: string;
  readonly files: readonly { readonly path: string; readonly bytes: number | null }[];
  readonly bytes: number;
  readonly hasChatTemplate: boolean;
  /** Tokens that the model was made for. */
  readonly madeFor?: number;
  readonly operators?: Readonly<Record<string, number>>;
  readonly kernels?: readonly KernelUse[];
  /** Products that round activations to 8 bits, as CausalLM loads the model. */
  readonly roundedProducts?: number;
  readonly caches?: {
    readonly count: number;
    readonly inPlace: number;
    /** True if they are written in place because the model is rewritten when it is loaded. */
    readonly rewritten: boolean;
    /** Who stands in the way. */
    readonly resisting: readonly { readonly input: string; readonly node: string; readonly reason: string }[];
    /** Why the model is not rewritten, where it is not. */
    readonly notRewritten?: string;
  };
  readonly pages?: Verdict;
  readonly drawsOnDevice?: Verdict;
  readonly memory?: MemoryForecast;
  readonly speed?: SpeedForecast;
}

/** Looks at a model from all sides. */
export async function checkModel(source: CheckedSource, context: number | undefined): Promise<CheckReport> {
  const { name, variant, config, files, model, producer, hasTemplate } = source;
  const made = config["max_position_embeddings"] ?? config["n_positions"];
  const missing = files.flatMap(({ path, bytes }) => (bytes === undefined ? [`${path} is not there`] : []));
  const about = {
    name,
    ...(variant === undefined ? {} : { variant }),
    ...(typeof config["model_type"] === "string" ? { architecture: config["model_type"] } : {}),
    producer,
    files: files.map(({ path, bytes }) => ({ path, bytes: bytes ?? null })),
    bytes: files.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0),
    hasChatTemplate: hasTemplate,
    ...(typeof made === "number" ? { madeFor: made } : {}),
  };
  if (model instanceof InsituError)
    return { ...about, runs: false, problems: [...new Set([model.message, ...missing])] };
  const unknown = missingOperators(model);
  if (unknown.length > 0)
    return {
      ...about,
      runs: false,
      problems: [
        `operators that are not supported: ${unknown.join(", ")}; docs/operators.md lists those that are`,
        ...missing,
      ],
    };
  const broken = brokenRule(model, files[0].path);
  if (broken !== undefined) return { ...about, runs: false, problems: [broken.message, ...missing] };
  try {
    const told = await tell(model, config, context);
    const problems = [...missing, ...told.problems];
    return { ...about, ...told, runs: problems.length === 0, problems };
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
    return { ...about, runs: false, problems: [error.message, ...missing] };
  }
}

type Told = Pick<
  CheckReport,
  "problems" | "operators" | "kernels" | "roundedProducts" | "caches" | "pages" | "drawsOnDevice" | "memory" | "speed"
>;

async function tell(model: Model, config: CheckedSource["config"], context: number | undefined): Promise<Told> {
  const { linear, notRewritten } = rewritten(model);
  const [wasm, webgpu] = await Promise.all((["wasm", "webgpu"] as const).map(backendNamed));
  const plan = planFor(linear, wasm);
  const facts: SessionFacts = { weightBytes: weightBytesOf(plan.graph), arenaBytes: undefined };
  const explained = explainJson(plan, facts);
  const inPlace = explained.caches.filter((cache) => cache.inPlace);
  const entries = 2 * (typeof config["vocab_size"] === "number" ? config["vocab_size"] : 0);
  const memory = forecastMemoryOf(plan, facts, { backend: wasm, isDevice: false, context }, config, entries);
  return {
    problems: problemsOf(plan),
    operators: explained.operators,
    kernels: [kernelUse("wasm", wasm, linear, memory), kernelUse("webgpu", webgpu, linear, memory)],
    roundedProducts: plan.order.filter(roundsActivations).length,
    caches: {
      count: explained.caches.length,
      inPlace: inPlace.length,
      rewritten: linear !== model,
      resisting: explained.caches.flatMap(({ input, node, reason, inPlace: is }) =>
        is ? [] : [{ input, node, reason }],
      ),
      ...(notRewritten === undefined ? {} : { notRewritten }),
    },
    pages: await verdict(
      async () => pages({ logitRows: true, packed: true })(model),
      (paged) => paged !== model,
    ),
    drawsOnDevice: await verdict(
      async () => withDrawnTokens()(linear, { isDevice: true }),
      (drawing) => drawing !== linear,
    ),
    ...(memory === undefined ? {} : { memory }),
    speed: speedForecast(plan, memory),
  };
}

/** The model as it is loaded: rewritten where its caches grow and that is understood. */
function rewritten(model: Model): { readonly linear: Model; readonly notRewritten: string | undefined } {
  try {
    return { linear: rewriteIfGrowing(model), notRewritten: undefined };
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
    return { linear: model, notRewritten: error.message };
  }
}

const backendNamed = (name: BackendName): Promise<Backend> => backends.find((each) => each.name === name)!.load();

const planFor = (model: Model, { hasKernel }: Backend): Plan => {
  const { graph, asFiled } = preparedGraphOf(model, { hasKernel, activations: "int8" });
  return makePlan(graph, { pairs: {}, asFiled });
};

/** What stands between a plan and text. */
function problemsOf({ graph, pairs }: Plan): string[] {
  const held = new Set(pairs.map(({ past }) => past.name));
  const strangers = graph.inputs.filter(({ name }) => !held.has(name) && !isFilled(name));
  const has = (name: string): boolean => graph.inputs.some((input) => input.name === name);
  const presents = new Set(pairs.map(({ present }) => present.name));
  const hasLogits = graph.outputs.some(
    ({ name, fact }) => name === "logits" || (!presents.has(name) && !isHidden(name) && fact?.shape?.length === 3),
  );
  return [
    ...(hasLogits ? [] : ["no output is called logits: export it with its head"]),
    ...(has("input_ids") ? [] : ["no input is called input_ids: text decoders read tokens there"]),
    ...(pairs.length > 0 ? [] : ["it has no cache: export it with past and present keys and values"]),
    ...strangers.map(({ name }) => `input "${name}" is not one of a text decoder's, and no output is its next content`),
  ];
}

function kernelUse(name: BackendName, backend: Backend, model: Model, memory: MemoryForecast | undefined): KernelUse {
  const context = memory?.context ?? 128;
  const plan = planFor(model, backend);
  const sizes = new Map([
    ["batch", 1],
    ["capacity", context],
  ]);
  const accounts = forecastToken(plan, sizes, context, backend)?.accounts;
  const reference = new Map<string, { operator: string; steps: number; reason: string }>();
  let kernels = 0;
  for (const node of plan.order) {
    const account = accounts?.get(node);
    if (account?.runs === "kernel") kernels++;
    if (account?.runs !== "reference") continue;
    const operator = node.op.name;
    const reason = account.reasons?.at(-1) ?? "";
    const key = `${operator}\0${reason}`;
    reference.set(key, { operator, reason, steps: (reference.get(key)?.steps ?? 0) + 1 });
  }
  return { backend: name, kernels, reference: [...reference.values()] };
}

async function verdict(make: () => Promise<Model>, holds: (made: Model) => boolean): Promise<Verdict> {
  try {
    return holds(await make())
      ? { possible: true }
      : { possible: false, reason: "its tokens or logits have another form" };
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
    return { possible: false, reason: error.message };
  }
}
