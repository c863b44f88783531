/**
 * Mutations of real files in a process of their own: each is loaded, planned, explained and, where that is cheap, run; or refused with an
 * InsituError. Bundled by mutations.test.ts. `node mutations.mjs COUNT SEED ROOT` prints one line of JSON.
 */
import { prepareReference } from "../../src/backends/reference/reference.js";
import { InsituError } from "../../src/base/error.js";
import { seededRandom, workOf } from "../../src/graph/call.js";
import { type Fact, knownSize } from "../../src/graph/fact.js";
import type { Graph } from "../../src/graph/graph.js";
import { ModelProtoSchema } from "../onnx/onnx_pb.js";
import { readModel } from "../../src/onnx/read.js";
import { drawPlan } from "../../tools/pictures/draw.js";
import { explainJson } from "../../packages/explain/json.js";
import { explainPlan } from "../../packages/explain/text.js";
import { makePlan } from "../../src/plan/plan.js";
import { compileProgram, type Program } from "../../src/plan/program.js";
import { rewriteIfGrowing } from "../../packages/rewrite/rewrite.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { traitsOf } from "../../src/tensor/element-type.js";
import { writeIntegers, writeNumbers } from "../../src/tensor/access.js";
import { View } from "../../src/tensor/view.js";
import { runOn } from "../support/executable.js";
import { mutateBytes, mutateTree, type Random } from "../onnx/mutate.js";

const [count, seed, root] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]];

// Not bundled: it would take itself for the program.
const { readArchive } = (await import(`${root}/scripts/archive.mjs`)) as {
  readonly readArchive: (path: string) => Map<string, Uint8Array>;
};

/** Real models: ONNX's node tests, which are all structure, and exported decoders, a few of them in a hundred. */
const modelsIn = (archive: string): Uint8Array[] =>
  [...readArchive(`${root}/test/${archive}.tar.br`)]
    .filter(([path]) => path.endsWith(".onnx"))
    .map(([, bytes]) => bytes);
const small = modelsIn("conformance/onnx-node-1.23.1");
const decoders = [...modelsIn("models/decoders"), ...modelsIn("models/architectures")];

/** Models that load as they are: of the others a mutation tells nothing. */
const loads = new Map<Uint8Array, boolean>();
function isGood(bytes: Uint8Array): boolean {
  let good = loads.get(bytes);
  if (good === undefined) {
    try {
      preparedGraphOf(readModel(bytes));
      good = true;
    } catch {
      good = false;
    }
    loads.set(bytes, good);
  }
  return good;
}

function pickOriginal(random: Random): Uint8Array {
  if (random(20) === 0) return decoders[random(decoders.length)];
  for (;;) {
    const bytes = small[random(small.length)];
    if (isGood(bytes)) return bytes;
  }
}

/** Elements that a run may make, and steps it may take, to be cheap. */
const mostElements = 2 ** 16;
const mostSteps = 2 ** 22;

function isCheap({ plan, facts }: Program): boolean {
  let elements = 0;
  for (const fact of facts.values()) elements += knownSize(fact) ?? 1;
  let steps = 0;
  for (const node of plan.order) {
    // A mutated loop may run for ever: that is its right.
    if (node.bodies.size > 0) return false;
    steps += workOf(
      node,
      node.inputs.map((value) => value && (facts.get(value) ?? value.fact)),
    );
  }
  return elements <= mostElements && steps <= mostSteps;
}

/** Inputs whose symbols are small numbers, the same for the same symbol. */
function smallInputs(graph: Graph, random: Random): Fact[] {
  const sizes = new Map<string, number>();
  return graph.inputs.map(({ fact }) => {
    const shape = (fact!.shape ?? []).map((dim) => {
      if (typeof dim === "number") return dim;
      const size = sizes.get(String(dim)) ?? 1 + random(3);
      sizes.set(String(dim), size);
      return size;
    });
    return { type: fact!.type, shape };
  });
}

function filled({ type, shape }: Fact, random: Random): View {
  const view = View.allocate(type, shape as readonly number[]);
  const { kind } = traitsOf(type);
  const numbers = Array.from({ length: view.size }, () => (kind === "float" ? random(9) - 4 : random(2)));
  if (kind === "integer" || kind === "bool") writeIntegers(view, numbers);
  else if (kind === "float") writeNumbers(view, numbers);
  return view;
}

type Outcome = "refused" | "loaded" | "run";

async function live(bytes: Uint8Array, random: Random): Promise<Outcome> {
  const model = readModel(bytes, { owned: true });
  const { graph, removed } = preparedGraphOf(model);
  const plan = makePlan(graph);
  makePlan(graph, { pasts: "caller" });
  const facts = { weightBytes: 0, arenaBytes: undefined, removed };
  explainPlan(plan, facts);
  JSON.stringify(explainJson(plan, facts));
  drawPlan(plan, facts);
  try {
    rewriteIfGrowing(model);
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") throw error;
  }
  const inputs = smallInputs(graph, random);
  const sizes = inputs.reduce((sum, fact) => sum + knownSize(fact)!, 0);
  if (!(sizes <= mostElements)) return "loaded";
  const functional = makePlan(graph, { pasts: "caller" });
  if (!isCheap(compileProgram(functional, inputs))) return "loaded";
  const views = inputs.map((fact) => filled(fact, random));
  const executable = prepareReference(functional);
  await runOn(executable, views);
  return "run";
}

const megabytes = (): number => process.resourceUsage().maxRSS / 1024;
const counts = { refused: 0, loaded: 0, run: 0 };
const longest = { milliseconds: 0, seed: 0, bytes: 0 };
const wrong: string[] = [];
// What is compiled once is compiled before anything is measured.
for (const bytes of small.slice(0, 50)) await live(bytes.slice(), (bound) => bound - 1).catch(() => undefined);
const before = megabytes();
for (let at = seed; at < seed + count; at++) {
  const uniform = seededRandom(at);
  const random: Random = (bound) => Math.floor(uniform() * bound);
  const original = pickOriginal(random);
  const mutated =
    random(3) === 0 ? mutateBytes(original, small, random) : mutateTree(original, ModelProtoSchema, random);
  const bytes = mutated.slice();
  const [wall, processor] = [performance.now(), process.cpuUsage()];
  let outcome: Outcome = "refused";
  try {
    outcome = await live(bytes, random);
  } catch (error) {
    if (!(error instanceof InsituError) || error.code === "internal") {
      wrong.push(`seed ${at}: ${error instanceof Error ? error.stack : String(error)}`);
      if (wrong.length === 20) break;
    }
  }
  const { user, system } = process.cpuUsage(processor);
  const milliseconds = Math.round(Math.min(performance.now() - wall, (user + system) / 1000));
  if (milliseconds > longest.milliseconds) Object.assign(longest, { milliseconds, seed: at, bytes: bytes.length });
  counts[outcome]++;
}
console.log(JSON.stringify({ counts, wrong, longest, megabytes: Math.round(megabytes() - before) }));
