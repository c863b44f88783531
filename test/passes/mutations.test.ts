// Exported decoders with something changed at random: an inner value shown as an output, a constant, an operator or an operand replaced.
// Whatever that makes of the graph, all passes must not change its results. INSITU_SOAK=1 runs the full count, INSITU_SEED one seed.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import { initializer, value } from "../../src/onnx/build.js";
import { type Model, type ModelGraph, type ModelNode, tensorView } from "../../src/onnx/model.js";
import { readModel } from "../../src/onnx/read.js";
import { writeModel } from "../../src/onnx/write.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { readNumbers } from "../../src/tensor/access.js";
import type { Tensor } from "../../src/tensor/tensor.js";
import { InsituError } from "../../src/base/error.js";
import { decoders, fileOf, stepFeeds } from "./exported.js";
import { largestDifference } from "./support.js";
import { soak } from "../support/soak.js";

const rounds = soak ? 20 : 1;
const seed = Number(process.env["INSITU_SEED"] ?? 20_261_115);

type Pick = <T>(list: readonly T[]) => T;
const changed = (model: Model, graph: Partial<ModelGraph>): Model => ({
  ...model,
  graph: { ...model.graph, ...graph },
});
const withNode = (model: Model, node: ModelNode, by: Partial<ModelNode>): Model =>
  changed(model, { nodes: model.graph.nodes.map((made) => (made === node ? { ...made, ...by } : made)) });

/** The type and shape of every value, as text. */
function kindsOf(model: Model): Map<string, string> {
  const kinds = new Map<string, string>();
  const { graph } = preparedGraphOf(model, { level: "disabled" });
  for (const known of [...graph.inputs, ...graph.nodes.flatMap((node) => node.outputs)])
    if (known?.fact !== undefined) kinds.set(known.name, `${known.fact.type}[${String(known.fact.shape)}]`);
  return kinds;
}

/** Operators that may be exchanged, and by which: none that makes NaN or infinity of numbers, on which guards in the graph act. */
const exchanges: readonly { readonly of: readonly string[]; readonly by: readonly string[] }[] = [
  {
    of: ["Neg", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf", "Cos", "Sin", "Identity"],
    by: ["Neg", "Sigmoid", "Tanh", "Erf", "Cos", "Sin", "Identity"],
  },
  { of: ["Add", "Sub", "Mul", "Div"], by: ["Add", "Sub", "Mul"] },
];

const mutations: Readonly<Record<string, (model: Model, pick: Pick) => Model>> = {
  "an inner value is shown"(model, pick) {
    const kinds = kindsOf(model);
    const outputs = new Set(model.graph.outputs.map(({ name }) => name));
    const inner = model.graph.nodes
      .flatMap((node) => node.outputs)
      .filter((name) => kinds.has(name) && !outputs.has(name));
    return changed(model, { outputs: [...model.graph.outputs, value(pick(inner))] });
  },
  "a constant is another"(model, pick) {
    const small = model.graph.initializers.filter(
      ({ dims, type }) => type === "float32" && dims.every((dim) => dim === 1),
    );
    if (small.length === 0) return model;
    const old = pick(small);
    const [number] = readNumbers(tensorView(old));
    const next = initializer(old.name, "float32", [pick([number * 1.01, number + 0.1, -number, number * 2])], old.dims);
    return changed(model, { initializers: model.graph.initializers.map((tensor) => (tensor === old ? next : tensor)) });
  },
  "an operator is another"(model, pick) {
    const exchange = pick(exchanges);
    const nodes = model.graph.nodes.filter(({ opType }) => exchange.of.includes(opType));
    return nodes.length === 0 ? model : withNode(model, pick(nodes), { opType: pick(exchange.by) });
  },
  "operands change places"(model, pick) {
    const nodes = model.graph.nodes.filter(
      ({ inputs, opType }) => inputs.length === 2 && ["Add", "Sub", "Mul", "Concat"].includes(opType),
    );
    const node = pick(nodes);
    return withNode(model, node, { inputs: [node.inputs[1], node.inputs[0]] });
  },
  "an operand is another of its kind"(model, pick) {
    const kinds = kindsOf(model);
    const at = pick(model.graph.nodes.map((_, position) => position).slice(1));
    const node = model.graph.nodes[at];
    const earlier = model.graph.nodes.slice(0, at).flatMap(({ outputs }) => outputs);
    const position = pick(node.inputs.map((_, index) => index));
    const kind = kinds.get(node.inputs[position]);
    const alike = earlier.filter(
      (name) => name !== node.inputs[position] && kinds.get(name) === kind && kind !== undefined,
    );
    return alike.length === 0 ? model : withNode(model, node, { inputs: node.inputs.with(position, pick(alike)) });
  },
};

/** The results of both sessions on the first steps; undefined where the plain one refuses the model or its numbers run away. */
async function differenceOf(model: Model, decoder: string): Promise<number | undefined> {
  const bytes = writeModel(model);
  const run = async (session: InferenceSession, step: string): Promise<Record<string, Tensor> | undefined> => {
    const feeds = stepFeeds(session, decoder, step, undefined);
    return feeds && session.run(feeds);
  };
  let plain: InferenceSession;
  const expected: Record<string, Record<string, Tensor>> = {};
  try {
    plain = await InferenceSession.create(bytes, {
      backend: "reference",
      inPlace: "never",
      graphOptimizationLevel: "disabled",
    });
    for (const step of ["step0", "padded0"]) {
      const results = await run(plain, step);
      if (results !== undefined) expected[step] = results;
    }
  } catch (error) {
    if (error instanceof InsituError && error.code !== "internal") return undefined;
    throw error;
  }
  const numbers = Object.values(expected).flatMap((results) =>
    Object.values(results).flatMap((tensor) => [...readNumbers(tensor.toView())]),
  );
  if (numbers.some((number) => !(Math.abs(number) < 1e3))) return undefined;
  const fused = await InferenceSession.create(bytes, { backend: "reference" });
  let worst = 0;
  for (const [step, results] of Object.entries(expected))
    worst = Math.max(worst, largestDifference((await run(fused, step))!, results));
  return worst;
}

const plain = decoders.filter((name) => !/fp16|q8/.test(name));
// In the tests one of six, which the seed chooses.
for (const decoder of plain.filter((_, at) => soak || at % 6 === seed % 6)) {
  test(`${decoder}: ${rounds} rounds of every change`, async () => {
    const model = readModel(fileOf(decoder));
    const original = Buffer.from(writeModel(model));
    let [compared, unchanged, refused] = [0, 0, 0];
    for (const [number, [name, mutate]] of Object.entries(mutations).entries()) {
      for (let round = 0; round < rounds; round++) {
        const random = seededRandom(seed + round * 101 + number * 13 + decoder.length * 7);
        const pick: Pick = (list) => list[Math.floor(random() * list.length)];
        // A change may come to nothing: an operator exchanged for itself, a constant of 0 doubled.
        let other = model;
        for (let draw = 0; draw < 8 && original.equals(writeModel(other)); draw++) other = mutate(model, pick);
        if (original.equals(writeModel(other))) {
          unchanged++;
          continue;
        }
        const difference = await differenceOf(other, decoder);
        if (difference === undefined) {
          refused++;
          continue;
        }
        compared++;
        expect(difference, `seed ${seed}, ${name}, round ${round}`).toBeLessThanOrEqual(1e-3);
      }
    }
    const counts = `${compared} compared, ${refused} refused, ${unchanged} without a change`;
    expect(compared, `seed ${seed}: ${counts}`).toBeGreaterThanOrEqual(rounds);
  });
}
