/** `insitu inspect`: what a model's caches do when it runs, and why; as text, as JSON, as a picture. Runs nothing. */
import { writeFile } from "node:fs/promises";
import type { Backend, Forecast } from "#insitu/backends/backend.js";
import { choiceOf } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import { isFresh, isKnownShape } from "#insitu/graph/dim.js";
import type { Model } from "#insitu/onnx/model.js";
import { knownSymbols, type Sizes } from "#insitu/explain/bytes.js";
import type { RemovedNode } from "#insitu/explain/caches.js";
import type { SessionFacts } from "#insitu/explain/gather.js";
import { explainJson } from "#insitu/explain/json.js";
import { explainPlan } from "#insitu/explain/text.js";
import type { PairNames } from "#insitu/plan/named-pairs.js";
import { makePlan, type Plan } from "#insitu/plan/plan.js";
import { nodePlatform } from "#insitu/platform/node.js";
import { openForRewriting } from "#insitu/rewrite/rewrite-source.js";
import { type BackendName, backends } from "#insitu/entry/backends.js";
import { preparedGraphOf } from "#insitu/session/load.js";
import { missingOperators } from "#insitu/session/missing-operators.js";
import { weightBytesOf } from "#insitu/session/weights.js";
import type { Command } from "./command.js";
import { onnxFileAt, openForInspection } from "./inspect-model.js";
import { forecastMemory, memoryForecastText } from "./inspect-memory.js";
import { printed } from "./inspect-print.js";
import { inputFacts } from "./inspect-sizes.js";
import { loadTools } from "./tools.js";
import { UsageError } from "./usage.js";
import { outlookText, rewriteOutlook } from "./rewrite-outlook.js";

/** Shows a model's caches: which are written in place, which are not, and what stands in the way. */
export const inspect: Command = {
  name: "inspect",
  positionals: "<model.onnx|folder>",
  arity: [1, 1],
  summary: "shows a model's caches, whether each is updated in place, and why or why not",
  options: {
    json: { describes: "everything as JSON: { caches: [{ node, op, input, output, inPlace, reason }], … }" },
    steps: { describes: "also list every step of the plan, in its order" },
    print: {
      value: "model|graph|program",
      describes: "print that instead: the file, the graph after all passes, or the program for the sizes of --dims",
    },
    svg: { value: "file", describes: "draw the caches, their writers and readers into this file" },
    pairs: {
      value: "past=present,…",
      describes: "the output that becomes an input's next content, where several could",
    },
    backend: {
      value: "name",
      describes: "the backend whose kernels are shown for the sizes of --dims: wasm, or webgpu (no GPU needed)",
    },
    variant: { value: "name", describes: "which ONNX file of a folder: q4 is onnx/model_q4.onnx" },
    dims: { value: "name=N,…", describes: "sizes to count bytes for, such as batch=1,capacity=4096" },
    context: {
      value: "number",
      describes: "the context window to compute memory for, in tokens (default: that of generate)",
    },
  },
  async run({ positionals: [given], options }, tools = loadTools) {
    const path = await onnxFileAt(given, options["variant"]);
    const model = await openForInspection(path);
    const backend = await backendNamed(options["backend"]);
    const { plan, removed } = planOf(model, readPairs(options["pairs"]), backend);
    const sizes = readSizes(options["dims"], plan);
    const forecast = forecastFor(plan, sizes, backend);
    if (options["print"] !== undefined) {
      console.log(
        printed(options["print"], { model, plan, program: forecast?.program, missing: missingSizes(plan, sizes) }),
      );
      return 0;
    }
    const facts: SessionFacts = {
      weightBytes: weightBytesOf(plan.graph),
      removed,
      sizes,
      arenaBytes: forecast?.program.arenaBytes,
      ...(forecast === undefined ? {} : { accounts: forecast.accounts }),
    };
    const isDevice = backends.find(({ name }) => name === backend.name)?.isDevice === true;
    const context = readContext(options["context"]);
    const memory = await forecastMemory(path, plan, facts, { backend, isDevice, context });
    const { svg } = options;
    if (typeof svg === "string") {
      const { drawPlan } = await tools("inspect --svg");
      await writeText(svg, drawPlan(plan, facts, { title: path.split(/[\\/]/).slice(-2).join("/") }));
    }
    const { opsets, producerName, producerVersion } = model;
    const producer = [producerName, producerVersion].filter((part) => part !== "").join(" ");
    const outlook = await rewriteOutlook(model, () => openForRewriting(path, nodePlatform));
    if (options["json"] === true) {
      const named = Object.fromEntries([...opsets].map(([domain, version]) => [domain || "ai.onnx", version]));
      const rest = { ...(memory && { memory }), ...(outlook && { rewrite: outlook }) };
      console.log(JSON.stringify({ ...explainJson(plan, facts), opsets: named, producer, ...rest }, null, 2));
      return 0;
    }
    const versions = [...opsets].map(([domain, version]) => `${domain || "ai.onnx"} ${version}`).join(", ");
    console.log(`${path}: opset ${versions}${producer === "" ? "" : `, made by ${producer}`}`);
    console.log(explainPlan(plan, facts, { steps: options["steps"] === true }));
    if (memory !== undefined) console.log(`\n${memoryForecastText(memory, isDevice)}`);
    const inPlace = explainJson(plan, facts).caches.every((cache) => cache.inPlace);
    if (outlook !== undefined) console.log(`\n${outlookText(outlook, inPlace)}`);
    const hints = hintsFor(plan, sizes, options["steps"] === true);
    if (hints.length > 0) console.log(`\n${hints.join("\n")}`);
    if (typeof svg === "string") console.log(`\nthe picture is in ${svg}`);
    return 0;
  },
};

function planOf(
  model: Model,
  pairs: PairNames,
  { hasKernel }: Backend,
): { readonly plan: Plan; readonly removed: readonly RemovedNode[] } {
  try {
    const { graph, removed, asFiled } = preparedGraphOf(model, { hasKernel });
    return { plan: makePlan(graph, { pairs, asFiled }), removed };
  } catch (error) {
    if (!(error instanceof InsituError) || error.code !== "unsupported-operator") throw error;
    const missing = missingOperators(model);
    throw missing.length <= 1
      ? error
      : new InsituError(
          "unsupported-operator",
          `the model calls ${missing.length} operators that are not supported: ${missing.join(", ")}; the first is ${error.message}`,
          { cause: error },
        );
  }
}

/** `past=present,…`; neither name may hold a comma. */
function readPairs(given: string | boolean | undefined): PairNames {
  if (typeof given !== "string") return {};
  const pairs = given
    .split(",")
    .map((part) => /^\s*(.+?)\s*=\s*(.+?)\s*$/.exec(part)?.slice(1) as [string, string] | undefined);
  const named = pairs.filter((pair) => pair !== undefined);
  if (named.length < pairs.length)
    throw new UsageError(`--pairs "${given}": expected input=output, such as past=present`);
  return Object.fromEntries(named);
}

async function writeText(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InsituError("invalid-argument", `--svg ${path} cannot be written: ${why}`, { cause });
  }
}

/** `batch=1,capacity=4096`; a name may be any symbol of an input's shape, commas and all: the size follows its last `=`. */
function readSizes(given: string | boolean | undefined, plan: Plan): Sizes {
  const sizes = new Map<string, number>();
  if (typeof given !== "string") return sizes;
  const known = knownSymbols(plan);
  for (const [part, name, size] of given.matchAll(/\s*(.+?)\s*=\s*([^=,]*?)\s*(?:,|$)/g)) {
    if (!/^\d+$/.test(size)) throw new UsageError(`--dims ${part}: a size is a whole number, got "${size}"`);
    if (!known.has(name))
      throw new UsageError(
        `--dims ${name}: no input has a dimension of that name; known are ${[...known].join(", ") || "none: all sizes are fixed"}`,
      );
    sizes.set(name, Number(size));
  }
  if (sizes.size === 0) throw new UsageError(`--dims "${given}": expected name=N, such as batch=1,capacity=4096`);
  return sizes;
}

function readContext(given: string | boolean | undefined): number | undefined {
  if (given === undefined) return undefined;
  const context = Number(given);
  if (!Number.isInteger(context) || context < 2)
    throw new UsageError(`insitu inspect: --context must be a whole number from 2 on, got "${given}"`);
  return context;
}

/** The backend of that name; the best where none is named. */
function backendNamed(name: string | boolean | undefined): Promise<Backend> {
  const named = backends.map((choice) => choice.name);
  const asked = choiceOf("--backend", name as BackendName | undefined, named, named[0]);
  return backends.find((choice) => choice.name === asked)!.load();
}

/** What a backend would do with these sizes; undefined where a size is missing, or there is nothing to choose. */
function forecastFor(plan: Plan, sizes: Sizes, backend: Backend): Forecast | undefined {
  const facts = inputFacts(plan, sizes);
  return facts.every(({ shape }) => isKnownShape(shape)) ? backend.forecast?.(plan, facts) : undefined;
}

/** The symbols of the inputs that have no size. */
function missingSizes(plan: Plan, sizes: Sizes): string[] {
  const named = new Set(inputFacts(plan, sizes).flatMap(({ shape }) => (shape ?? []).map(String)));
  return [...named].filter((name) => !/^\d+$/.test(name) && !isFresh(name));
}

/** What else the command can tell. */
function hintsFor(plan: Plan, sizes: Sizes, steps: boolean): string[] {
  const roles = plan.pairs.length === 0 ? [] : ["batch", "capacity"].filter((role) => !sizes.has(role));
  const given = new Map([...roles.map((role) => [role, 1] as const), ...sizes]);
  const others = missingSizes(plan, given);
  const symbolic = plan.pairs.some(({ past }) => !isKnownShape(past.fact?.shape));
  const hints: string[] = [];
  if (symbolic && roles.length > 0)
    hints.push(`--dims ${roles.map((role) => `${role}=…`).join(",")} counts the bytes of the caches`);
  if (others.length > 0)
    hints.push(`--dims with ${others.join(", ")} as well counts the arena and shows which steps have kernels`);
  if (!steps) hints.push("--steps lists every step, --svg caches.svg draws the caches");
  return hints;
}
