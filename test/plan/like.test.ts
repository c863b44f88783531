// Programs that take over from others of their plan are what they would be from nothing: every result is the same, to the bit, in any order
// of shapes, on one thread and on two and on the reference implementation; what is kept for them does not grow; and little is done for a token.
import { afterAll, describe, expect, test, vi } from "vitest";
import type { BackendSession, Executable } from "../../src/backends/backend.js";
import { prepareReference } from "../../src/backends/reference/reference.js";
import { WasmEngine } from "../../src/backends/wasm/engine.js";
import { WasmMemory } from "../../src/backends/wasm/memory.js";
import { wasmBackend } from "../../src/backends/wasm/wasm.js";
import { generatedDecoder, smallSizes } from "../../tools/demo/decoder.js";
import { publishedDecoder } from "../../tools/demo/published-decoder.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import type { Graph, Value } from "../../src/graph/graph.js";
import { Inference } from "../../src/graph/inference.js";
import type { Model } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { wasmKernels } from "../../src/ops/wasm.js";
import { makePlan, type Plan } from "../../src/plan/plan.js";
import { compileProgram, type Program } from "../../src/plan/program.js";
import { nodePlatform } from "../../src/platform/node.js";
import { preparedGraphOf } from "../../src/session/load.js";
import type { Session } from "../../src/session/session.js";
import { cloneView, sameElements } from "../../src/tensor/copy.js";
import { byteLengthOf } from "../../src/tensor/element-type.js";
import { elementCount, type View } from "../../src/tensor/view.js";
import { Client } from "../session/handle-client.js";
import { tokenFeeds, tokens } from "../support/decoding.js";
import { runOn } from "../support/executable.js";
import { exportedBytes, exportedDecoders } from "../support/exported-decoders.js";
import { chainModel, feedsOf, walk } from "./shape-walks.js";
import { soak } from "../support/soak.js";

const seed = Number(process.env["INSITU_SEED"] ?? 16);
const tried = soak
  ? exportedDecoders.filter((name) => !name.includes("static"))
  : ["llama_op17_eager_ts", "gemma3_op18_sdpa"];

const models: Readonly<Record<string, () => Model>> = {
  "a mask made of shapes": () => chainModel({ data: false }),
  "rows that data choose": () => chainModel({ data: true }),
  "a published decoder": () => publishedDecoder(undefined, { type: "float32" }),
  ...Object.fromEntries(tried.map((name) => [name, () => readModel(exportedBytes(name))])),
};

const opened: BackendSession[] = [];
async function open(threads: number): Promise<BackendSession> {
  const session = await wasmBackend(wasmKernels).open({ platform: nodePlatform, threads });
  opened.push(session);
  return session;
}
afterAll(() => opened.forEach((session) => session.release()));

const functionalPlan = (model: Model): Plan =>
  makePlan(preparedGraphOf(model, { hasKernel: () => true }).graph, { pasts: "caller" });

const copies = ({ outputs }: Graph, found: ReadonlyMap<Value, View>): View[] =>
  outputs.map((value) => cloneView(found.get(value)!));

/** Where two sets of results differ in a bit. */
const differing = (graph: Graph, actual: readonly View[], expected: readonly View[]): string[] =>
  graph.outputs.flatMap(({ name }, at) =>
    String(actual[at]) === String(expected[at]) && sameElements(actual[at], expected[at]) ? [] : [name],
  );

describe.each(Object.keys(models))("%s", (name) => {
  const plan = functionalPlan(models[name]());
  const { graph } = plan;

  test.each(["reference", "1 thread", "2 threads"])("%s: each run as from nothing", async (where) => {
    const session = where === "reference" ? undefined : await open(Number(where[0]));
    const prepare = (): Executable => session?.prepare(plan) ?? prepareReference(plan);
    const lasting = prepare();
    const random = seededRandom(seed);
    for (const sizes of walk(seed, soak ? 120 : where === "1 thread" ? 12 : 5)) {
      const inputs = feedsOf(graph, sizes, random);
      const actual = copies(graph, await runOn(lasting, inputs));
      const expected = copies(graph, await runOn(prepare(), inputs));
      expect(differing(graph, actual, expected), `seed ${seed}, ${JSON.stringify(sizes)}`).toEqual([]);
    }
  });

  test("programs say the same", () => {
    const random = seededRandom(seed);
    let before: Program | undefined;
    for (const sizes of walk(seed + 1, soak ? 200 : 24)) {
      const facts = feedsOf(graph, sizes, random).map(({ type, shape }) => ({ type, shape }));
      const program = compileProgram(plan, facts, { resultsInArena: true }, before);
      const alone = compileProgram(plan, facts, { resultsInArena: true });
      expect(told(program)).toEqual(told(alone));
      expect(overlaps(program)).toEqual([]);
      before = program;
    }
  });
});

/** All of a program but where in the arena values lie, and numbers of symbols that nothing is known of. */
const told = ({ steps, checks, constants, facts, plan }: Program): unknown => ({
  steps: steps.map(({ node, placements, dynamic, updates, overwrites, keeps, checks: before }) => [
    node.label,
    placements.map((placement) =>
      placement?.kind === "shared" ? [placement.effect, placement.with.name, placement.shape] : placement?.kind,
    ),
    [dynamic, updates, overwrites, keeps],
    before.map((check) => check.node.label),
  ]),
  checks: checks.map(({ node, constant }) => [node.label, constant]),
  constants: [...constants].map(([{ name }, view]) => `${name} ${view} ${view.data.toString()}`).toSorted(),
  shapes: plan.order
    .flatMap(({ outputs }) => outputs)
    .map((value) => value && String(facts.get(value)?.shape).replaceAll(/\?~?\d+/g, "?")),
});

/** Values of the arena that are alive at once and share bytes, or that reach past its end. */
function overlaps({ steps, arenaBytes, plan }: Program): string[] {
  const owner = new Map<Value, Value>();
  const lives = new Map<Value, { first: number; last: number; from: number; to: number }>();
  steps.forEach(({ node, placements }, at) => {
    for (const value of [...node.inputs, ...[...node.bodies.values()].flatMap(({ captured }) => captured)]) {
      const life = value && lives.get(owner.get(value) ?? value);
      if (life) life.last = at;
    }
    node.outputs.forEach((value, output) => {
      const placement = placements[output];
      if (value === undefined || placement === undefined) return;
      if (placement.kind === "shared") owner.set(value, owner.get(placement.with) ?? placement.with);
      if (placement.kind !== "arena") return;
      const bytes = byteLengthOf(placement.type, elementCount(placement.shape));
      lives.set(value, { first: at, last: at, from: placement.offset, to: placement.offset + bytes });
    });
  });
  for (const value of plan.graph.outputs) {
    const life = lives.get(owner.get(value) ?? value);
    if (life) life.last = Infinity;
  }
  const all = [...lives].filter(([, { from, to }]) => to > from);
  return all.flatMap(([value, a], at) => [
    ...(a.to > arenaBytes ? [`${value.name} reaches past the end`] : []),
    ...all
      .slice(at + 1)
      .filter(([, b]) => a.first <= b.last && b.first <= a.last && a.from < b.to && b.from < a.to)
      .map(([other]) => `${value.name} and ${other.name}`),
  ]);
}

describe("token after token", () => {
  const clientOf = async (name: string): Promise<Client> =>
    new Client(await InferenceSession.create(exportedBytes(name), { threads: 1, presents: "copy" }));

  async function decode(client: Client, tokens: number): Promise<void> {
    let past = await client.run([[1, 2, 3, 4, 5, 6, 7, 8]], client.empty());
    for (let token = 0; token < tokens; token++) past = await client.run([[token % 100]], past);
  }

  test.each(soak ? ["llama_op18_sdpa", "gemma2_op24_eager"] : ["llama_op18_sdpa"])(
    "%s: what no length touches is neither inferred nor recorded again",
    async (name) => {
      const client = await clientOf(name);
      await decode(client, 2);
      const steps = client.session.explain({ json: true }).steps.length;
      const [called, inferred] = [vi.spyOn(WasmEngine.prototype, "call"), vi.spyOn(Inference.prototype, "countRule")];
      await decode(client, 200);
      const counts = [called, inferred].map(({ mock }) => mock.calls.length / 200);
      for (const spy of [called, inferred]) spy.mockRestore();
      await client.session.release();
      // Of two layers: four joined caches, two attentions and the mask; a layout for longer rows now and then.
      expect(counts[0]).toBeLessThan(0.3 * steps);
      expect(counts[1]).toBeLessThan(0.6 * steps);
    },
  );

  test("memory stays as it is once the same lengths come again", async () => {
    const taken = vi.spyOn(WasmMemory.prototype, "take");
    const client = await clientOf("llama_op18_sdpa");
    const used = (): number =>
      [...new Set(taken.mock.contexts as WasmMemory[])].reduce((sum, { usedBytes }) => sum + usedBytes, 0);
    const rounds: number[] = [];
    for (let round = 0; round < 4; round++) {
      await decode(client, 50);
      rounds.push(used());
    }
    taken.mockRestore();
    expect(rounds[3]).toBeLessThanOrEqual(rounds[1]);
    await client.session.release();
  });
});

test("prompts of many lengths on a state: each as in a session of its own", async () => {
  const bytes = writeModel(generatedDecoder(smallSizes));
  const open = async (): Promise<Session> => InferenceSession.create(bytes, { threads: 1 });
  const lasting = await open();
  const dims = { batch: 1, capacity: 64 };
  const state = lasting.createState({ dims });
  const random = seededRandom(seed);
  for (let run = 0; run < (soak ? 60 : 10); run++) {
    if (state.lengths[0] > 50) state.rewind(Math.floor(random() * 40));
    const [start, count] = [state.lengths[0], random() < 0.4 ? 1 : 1 + Math.floor(random() * 12)];
    const feeds = tokenFeeds([tokens(start, start + count)], state.lengths);
    const fresh = await open();
    const other = fresh.createState({ dims });
    await other.restore(await state.save());
    const [actual, expected] = [await lasting.run(feeds, { state }), await fresh.run(feeds, { state: other })];
    expect(sameElements(actual["logits"].toView(), expected["logits"].toView()), `seed ${seed}, run ${run}`).toBe(true);
    await fresh.release();
  }
  await lasting.release();
});
