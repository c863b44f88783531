// Random graphs around caches: scatters, views, element-wise arithmetic, slices, branches that capture, several caches, shared
// inputs, outputs in the middle, readers listed after writers. Every choice comes from one seed.
import { seededRandom } from "../../src/graph/call.js";
import { buildModel, graph, initializer, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelTensor } from "../../src/onnx/model.js";

const [batch, capacity, width] = [2, 4, 3];

/** What a value of the graph is shaped like. */
type Kind = "cache" | "flat" | "row" | "boxed";

const shapes: Record<Kind, number[]> = {
  cache: [batch, capacity, width],
  flat: [batch, capacity * width],
  row: [batch, 1, width],
  boxed: [1, batch, capacity, width],
};

export interface RandomGraph {
  readonly model: Model;
  /** Caches among the inputs. */
  readonly caches: readonly string[];
  readonly rows: readonly string[];
}

/** A random model; the same seed gives the same model. */
export function randomGraph(seed: number): RandomGraph {
  const random = seededRandom(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const chance = (probability: number): boolean => random() < probability;
  const caches = Array.from({ length: 1 + below(3) }, (_, index) => `past${index}`);
  const rows = Array.from({ length: 2 + below(2) }, (_, index) => `row${index}`);
  const indices = ["where0", "where1", "where2"];
  const pool: { name: string; kind: Kind }[] = [
    ...caches.map((name) => ({ name, kind: "cache" as const })),
    ...rows.map((name) => ({ name, kind: "row" as const })),
  ];
  const initializers: ModelTensor[] = [
    initializer("to_flat", "int64", [BigInt(batch), BigInt(capacity * width)], [2]),
    initializer("to_cache", "int64", shapes.cache.map(BigInt), [3]),
    initializer("axis0", "int64", [0n], [1]),
    initializer("axis1", "int64", [1n], [1]),
    initializer("from", "int64", [BigInt(below(capacity - 1))], [1]),
    initializer("until", "int64", [BigInt(capacity)], [1]),
    initializer("half", "float32", [0.5], []),
  ];
  if (chance(0.2)) {
    const data = Float32Array.from({ length: batch * capacity * width }, () => random());
    initializers.push(initializer("constant_cache", "float32", data, shapes.cache));
    pool.push({ name: "constant_cache", kind: "cache" });
  }
  const nodes: ModelNode[] = [];
  let count = 0;
  const emit = (op: string, inputs: string[], kind: Kind, attributes: Parameters<typeof node>[3] = {}): string => {
    const name = `v${count++}`;
    nodes.push(node(op, inputs, [name], attributes, { name: `n_${name}` }));
    pool.push({ name, kind });
    return name;
  };
  const pick = (...kinds: Kind[]): { name: string; kind: Kind } => {
    const fitting = pool.filter(({ kind }) => kinds.includes(kind));
    // Recent values are likelier, so that chains form.
    return fitting[Math.max(below(fitting.length), below(fitting.length))] ?? pool[0];
  };
  // The same row at the same place twice would make a second write that changes nothing.
  const written = new Set<string>();
  const scatter = (cache: string): void => {
    for (let attempt = 0; attempt < 20; attempt++) {
      const [row, where] = [pick("row").name, indices[below(indices.length)]];
      if (written.has(`${row} ${where}`)) continue;
      written.add(`${row} ${where}`);
      emit("TensorScatter", [cache, row, where], "cache", { axis: 1, mode: "circular" });
      return;
    }
  };
  const branch = (name: string, op: string, operand: string): ReturnType<typeof graph> =>
    graph({
      name,
      nodes: [node(op, [operand], [`${name}_out${count}`], {})],
      outputs: [value(`${name}_out${count}`, "float32", shapes.cache)],
    });
  const choices: (() => void)[] = [
    () => scatter(pick("cache").name),
    () => scatter(pick("cache").name),
    () => scatter(caches[below(caches.length)]),
    () => {
      const row = pick("row").name;
      if (written.has(row)) return;
      written.add(row);
      emit("ScatterElements", [pick("cache").name, "picks", row], "cache", { axis: 1 });
    },
    () => void emit("Identity", [pick("cache").name], "cache"),
    () => void emit("Reshape", [pick("cache", "boxed").name, "to_flat"], "flat"),
    () => void emit("Reshape", [pick("flat", "boxed").name, "to_cache"], "cache"),
    () => void emit("Unsqueeze", [pick("cache").name, "axis0"], "boxed"),
    () => void emit("Neg", [pick("cache").name], "cache"),
    () => void emit("Add", [pick("cache").name, pick("cache", "row").name], "cache"),
    () => void emit("Mul", [pick("cache").name, "half"], "cache"),
    () => void emit("Slice", [pick("cache").name, "from", "until", "axis1"], "row"),
    () => void emit("ReduceSum", [pick("cache").name, "axis1"], "row", { keepdims: 1 }),
    () => {
      const shape = `v${count++}`;
      nodes.push(node("Shape", [pick("cache").name], [shape], {}));
      const float = `v${count++}`;
      nodes.push(node("Cast", [shape], [float], { to: 1 }));
      emit("Mul", [pick("row").name, float], "row");
    },
    () =>
      void emit("If", ["flag"], "cache", {
        then_branch: branch("then", "Identity", pick("cache").name),
        else_branch: branch("else", "Neg", pick("cache").name),
      }),
  ];
  const steps = 3 + below(9);
  for (let step = 0; step < steps; step++) choices[below(choices.length)]();
  // Slices are capacity − from rows long; as a row they must be one row again.
  const made = new Map(nodes.map((entry) => [entry.outputs[0], entry]));
  const repaired = nodes.flatMap((entry) =>
    entry.opType !== "Slice"
      ? [entry]
      : [
          { ...entry, outputs: [`${entry.outputs[0]}_all`] },
          node(
            "ReduceSum",
            [`${entry.outputs[0]}_all`, "axis1"],
            [entry.outputs[0]],
            { keepdims: 1 },
            { name: `${entry.name}_sum` },
          ),
        ],
  );
  const outputs = new Set<string>();
  const cacheLike = pool.filter(({ name, kind }) => kind === "cache" && made.has(name));
  for (let wanted = 1 + below(3); wanted > 0; wanted--)
    if (cacheLike.length > 0) outputs.add(cacheLike[Math.max(below(cacheLike.length), below(cacheLike.length))].name);
  if (chance(0.4)) outputs.add(pool.filter(({ name }) => made.has(name))[below(made.size)]?.name ?? "");
  outputs.add(nodes.at(-1)?.outputs[0] ?? emit("Neg", [caches[0]], "cache"));
  outputs.delete("");
  const model = buildModel({
    opset: 24,
    inputs: [
      ...caches.map((name) => value(name, "float32", shapes.cache)),
      ...rows.map((name) => value(name, "float32", shapes.row)),
      ...indices.map((name) => value(name, "int64", [batch])),
      value("picks", "int64", shapes.row),
      value("flag", "bool", []),
    ],
    outputs: [...outputs].map((name) => value(name, "float32")),
    nodes: shuffled(repaired, below),
    initializers,
  });
  return { model, caches, rows };
}

/** A random order that still computes every value before it is used. */
function shuffled(nodes: readonly ModelNode[], below: (count: number) => number): ModelNode[] {
  const makers = new Set(nodes.flatMap((entry) => entry.outputs));
  const captured = (entry: ModelNode): string[] =>
    [...entry.attributes.values()].flatMap((attribute) =>
      attribute.kind === "graph" ? attribute.value.nodes.flatMap((inner) => inner.inputs) : [],
    );
  const waiting = [...nodes];
  const done = new Set<string>();
  const result: ModelNode[] = [];
  while (waiting.length > 0) {
    const ready = waiting.filter((entry) =>
      [...entry.inputs, ...captured(entry)].every((name) => !makers.has(name) || done.has(name)),
    );
    const next = ready[below(ready.length)];
    waiting.splice(waiting.indexOf(next), 1);
    for (const name of next.outputs) done.add(name);
    result.push(next);
  }
  return result;
}
