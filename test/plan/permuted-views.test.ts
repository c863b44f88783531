// Outputs that only have axes of one element in other places are shown where they lie: random graphs of transposes, of steps that take buffers
// over and of writes into what was made in between give what a loop of this test computes, for shapes with and without such axes.
import { expect, test } from "vitest";
import { InferenceSession } from "../../src/entry/node.js";
import { buildModel, initializer, ints, node, value } from "../../src/onnx/build.js";
import type { ModelNode } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { seededRandom } from "../../src/graph/call.js";
import { makePlan } from "../../src/plan/plan.js";
import { compileProgram } from "../../src/plan/program.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { readModel } from "../../src/onnx/read.js";
import { bombs } from "../hostile/bombs.js";
import { soak } from "../support/soak.js";

interface Numbers {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

const rank = 4;
const sizeOf = (shape: readonly number[]): number => shape.reduce((product, dim) => product * dim, 1);

/** Elements by their coordinates. */
function transposed({ shape, data }: Numbers, order: readonly number[]): Numbers {
  const to = order.map((axis) => shape[axis]);
  const made = Array.from({ length: data.length }, (_, index) => {
    let rest = index;
    const at = new Array<number>(rank).fill(0);
    for (let axis = rank - 1; axis >= 0; axis--) {
      at[order[axis]] = rest % to[axis];
      rest = Math.floor(rest / to[axis]);
    }
    return data[at.reduce((place, coordinate, axis) => place * shape[axis] + coordinate, 0)];
  });
  return { shape: to, data: made };
}

/** The first row of axis 2 becomes 7. */
function written({ shape, data }: Numbers): Numbers {
  const inner = shape[3];
  return { shape, data: data.map((x, index) => (Math.floor(index / inner) % shape[2] === 0 ? 7 : x)) };
}

test.each(["reference", "wasm"] as const)("on %s", async (backend) => {
  for (let seed = 1; seed <= (soak ? 600 : 40); seed++) {
    const random = seededRandom(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
    const shape = Array.from({ length: rank }, () => pick([1, 1, 2, 3]));
    const fed = { shape, data: Array.from({ length: sizeOf(shape) }, (_, at) => at + 1) };
    const values = new Map<string, Numbers>([["x", fed]]);
    const nodes: ModelNode[] = [node("Neg", ["x"], ["v0"])];
    values.set("v0", { shape, data: fed.data.map((x) => -x) });
    const updates = new Map<string, readonly number[]>();
    for (let at = 1; at < 14; at++) {
      const [name, from] = [`v${at}`, pick([...values.keys()].slice(1))];
      const own = values.get(from)!;
      const kind = pick(["Transpose", "Transpose", "Transpose", "Neg", "Add", "TensorScatter"]);
      if (kind === "Transpose") {
        const perm = [0, 1, 2, 3].toSorted(() => random() - 0.5);
        nodes.push(node(kind, [from], [name], { perm: ints(perm) }));
        values.set(name, transposed(own, perm));
      } else if (kind === "Neg") {
        nodes.push(node(kind, [from], [name]));
        values.set(name, { ...own, data: own.data.map((x) => -x) });
      } else if (kind === "Add") {
        const other = pick([...values.keys()].filter((each) => String(values.get(each)!.shape) === String(own.shape)));
        nodes.push(node(kind, [from, other], [name]));
        values.set(name, { ...own, data: own.data.map((x, index) => x + values.get(other)!.data[index]) });
      } else {
        updates.set(`u${at}`, own.shape.with(2, 1));
        nodes.push(node(kind, [from, `u${at}`], [name]));
        values.set(name, written(own));
      }
    }
    const outputs = [...values.keys()].slice(1).filter(() => random() < 0.25);
    if (outputs.length === 0) outputs.push("v13");
    const bytes = writeModel(
      buildModel({
        inputs: [value("x", "float32", shape)],
        outputs: outputs.map((name) => value(name, "float32", values.get(name)!.shape)),
        nodes,
        initializers: [...updates].map(([name, dims]) =>
          initializer(name, "float32", new Array<number>(sizeOf(dims)).fill(7), dims),
        ),
        opset: 24,
      }),
    );
    const session = await InferenceSession.create(bytes, { backend, threads: 1, graphOptimizationLevel: "disabled" });
    // Twice: the second run goes on from what was bound.
    for (let run = 0; run < 2; run++) {
      const results = await session.run({ x: new Tensor("float32", Float32Array.from(fed.data), shape) });
      for (const name of outputs)
        expect([...(results[name].data as Float32Array)], `seed ${seed}, ${name}`).toEqual(values.get(name)!.data);
    }
    await session.release();
  }
});

test("a decoder's run of one token moves nothing for its heads", async () => {
  const transposes = async (tokens: number): Promise<number> => {
    const nodes = [
      node("Neg", ["x"], ["a"]),
      node("Transpose", ["a"], ["heads"], { perm: ints([0, 2, 1, 3]) }),
      node("Neg", ["heads"], ["y"]),
    ];
    const shape = [1, "tokens", 4, 8];
    const built = buildModel({
      inputs: [value("x", "float32", shape)],
      outputs: [value("y", "float32", [1, 4, "tokens", 8])],
      nodes,
      opset: 24,
    });
    const session = await InferenceSession.create(writeModel(built), { backend: "reference" });
    await session.run({ x: new Tensor("float32", new Float32Array(tokens * 32), [1, tokens, 4, 8]) });
    const { arenaBytes } = session.memory;
    await session.release();
    return arenaBytes / (tokens * 128);
  };
  // The last step takes the buffer over, and the result has one of its own: what is left is what was moved.
  expect([await transposes(1), await transposes(3)]).toEqual([0, 1]);
});

test("a write behind a chain of views that is longer than a stack is deep", () => {
  const { build } = bombs.find(({ name }) => name === "views: Reshape before a scatter")!;
  const plan = makePlan(preparedGraphOf(readModel(build(20_000))).graph);
  const facts = plan.graph.inputs.map(({ fact }) => ({
    type: fact!.type,
    shape: fact!.shape!.map((dim) => (typeof dim === "number" ? dim : 2)),
  }));
  expect(compileProgram(plan, facts).steps).toHaveLength(plan.graph.nodes.length);
});
