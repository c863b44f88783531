/** What happens beyond the limits: less is known beforehand, and nothing that is computed changes; or an error that names the limit. */
import { describe, expect, test } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { longestDimension, mostTerms } from "../../src/base/limits.js";
import { InferenceSession } from "../../src/entry/node.js";
import { seededRandom } from "../../src/graph/call.js";
import {
  addDims,
  bindDim,
  type Dim,
  divideExactly,
  floorDivideDims,
  isKnown,
  isSize,
  maxDim,
  minDim,
  moduloDims,
  multiplyDims,
  productOf,
  subtractDims,
  symbol,
  symbolsOf,
  withTermAllowance,
} from "../../src/graph/dim.js";
import { buildModel, initializer, type ModelParts, node, value } from "../../src/onnx/build.js";
import type { Model, ModelNode, ModelSparseTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";
import { packArena } from "../../src/plan/arena.js";
import { makePlan } from "../../src/plan/plan.js";
import { ProgramCache } from "../../src/plan/program-cache.js";
import { preparedGraphOf } from "../../src/session/load.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { View } from "../../src/tensor/view.js";

const list = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at));
const model = (parts: Partial<ModelParts>): Model => buildModel({ opset: 24, ...parts });
const create = (parts: Partial<ModelParts>): Promise<InferenceSession> =>
  InferenceSession.create(writeModel(model(parts)), { backend: "reference" });
const ints = (name: string, ...numbers: readonly number[]): ReturnType<typeof initializer> =>
  initializer(name, "int64", BigInt64Array.from(numbers, BigInt), [numbers.length]);

describe("symbolic dimensions", () => {
  const names = ["a", "b", "c", "d"];
  /** A random computation, with symbols and with numbers. */
  function compute(random: () => number, sizes: ReadonlyMap<string, number>): { symbolic: Dim; number: number } {
    const values = names.map((name) => ({ symbolic: symbol(name), number: sizes.get(name)! }));
    const pick = (): (typeof values)[number] =>
      random() < 0.2
        ? ((count) => ({ symbolic: count as Dim, number: count }))(Math.floor(random() * 7) - 2)
        : values[Math.floor(random() * values.length)];
    for (let step = 0; step < 12; step++) {
      const [x, y] = [pick(), pick()];
      const [a, b] = [x.number, y.number];
      const choice = Math.floor(random() * 7);
      const next = [
        () => ({ symbolic: addDims(x.symbolic, y.symbolic), number: a + b }),
        () => ({ symbolic: subtractDims(x.symbolic, y.symbolic), number: a - b }),
        () => ({ symbolic: multiplyDims(x.symbolic, y.symbolic), number: a * b }),
        () => ({ symbolic: maxDim(x.symbolic, y.symbolic), number: Math.max(a, b) }),
        () => ({ symbolic: minDim(x.symbolic, y.symbolic), number: Math.min(a, b) }),
        () => ({ symbolic: floorDivideDims(x.symbolic, y.symbolic), number: Math.floor(a / b) }),
        () => ({ symbolic: moduloDims(x.symbolic, y.symbolic), number: a - Math.floor(a / b) * b }),
      ][choice]();
      if (Number.isSafeInteger(next.number) && b !== 0) values.push(next);
    }
    return values.at(-1)!;
  }

  test("say what holds for every size, or that nothing is known", () => {
    let untold = 0;
    for (let seed = 0; seed < 2_000; seed++) {
      const random = seededRandom(seed);
      const sizes = new Map(names.map((name) => [name, 1 + Math.floor(random() * 9)]));
      const run = (): { symbolic: Dim; number: number } => compute(random, sizes);
      // Every third one has little to work with.
      const { symbolic, number } = seed % 3 === 0 ? withTermAllowance(seed % 60, run) : run();
      expect(String(symbolic).length).toBeLessThanOrEqual(2 * longestDimension);
      if (typeof symbolic !== "number") expect(symbolic.terms.length).toBeLessThanOrEqual(mostTerms);
      const bound = bindDim(symbolic, sizes);
      if (isKnown(bound)) expect(bound === number || Object.is(bound, -number), `seed ${seed}: ${symbolic}`).toBe(true);
      else {
        expect(
          [...symbolsOf(bound)].some((name) => !isSize(name)),
          `seed ${seed}: ${symbolic}`,
        ).toBe(true);
        untold++;
      }
    }
    expect(untold).toBeGreaterThan(50);
  });

  test("of products of sums stop at the limit", () => {
    let sum: Dim = list(8, (at) => symbol(`d${at}`)).reduce<Dim>(addDims, 0);
    for (let times = 0; times < 50; times++) sum = multiplyDims(sum, sum);
    expect(String(sum)).toMatch(/^\?~/);
    expect(String(sum).length).toBeLessThanOrEqual(2 * longestDimension);
    const long = symbol("n".repeat(100_000));
    expect(String(addDims(long, 1)).length).toBeLessThan(100);
    expect(String(productOf(list(5_000, (at) => symbol(`d${at}`)))).length).toBeLessThan(2 * longestDimension);
    expect(divideExactly(long, 3)).toBeUndefined();
  });

  test("a work allowance is spent within its own scope, and counts against the one around it", () => {
    const [a, b] = [symbol("a"), symbol("b")];
    const work = (): string => String(list(20, () => 0).reduce<Dim>((sum) => addDims(sum, addDims(a, b)), 0));
    expect(work()).toBe("20*a + 20*b");
    expect(withTermAllowance(10, work)).toMatch(/\?~/);
    expect(withTermAllowance(10_000, work)).toBe("20*a + 20*b");
    expect(withTermAllowance(150, () => [withTermAllowance(140, work), work()])[1]).toMatch(/\?~/);
    expect(work()).toBe("20*a + 20*b");
  });

  test("of any size leave results as they are", async () => {
    // (a + b + … + h)^16 mod 1009 decides a shape.
    const session = await create({
      inputs: list(8, (at) => value(`x${at}`, "float32", [`d${at}`])),
      outputs: [value("y", "float32")],
      initializers: [ints("p", 1009)],
      nodes: [
        node(
          "Concat",
          list(8, (at) => `x${at}`),
          ["c"],
          { axis: 0 },
        ),
        node("Shape", ["c"], ["s0"]),
        ...list(4, (at) => node("Mul", [`s${at}`, `s${at}`], [`s${at + 1}`])),
        node("Mod", ["s4", "p"], ["m"]),
        node("ConstantOfShape", ["m"], ["y"]),
      ],
    });
    const feeds = Object.fromEntries(
      list(8, (at) => [`x${at}`, new Tensor("float32", new Float32Array(at % 2), [at % 2])]),
    );
    expect((await session.run(feeds))["y"].dims).toEqual([Number(4n ** 16n % 1009n)]);
  });

  test("that a file calls like those of unknown ones are not taken for them", async () => {
    const session = await create({
      inputs: [value("x", "float32", ["?0", "?1"]), value("k", "float32", ["?2"])],
      outputs: [value("y", "int64"), value("z", "float32")],
      nodes: [node("NonZero", ["k"], ["y"]), node("Identity", ["x"], ["z"])],
    });
    expect(session.inputMetadata[0].shape).toEqual(["'?0'", "'?1'"]);
    expect(String(session.outputMetadata[0].shape[1])).toMatch(/^\?\d+$/);
  });

  test("more of them than a shape may have", async () => {
    const chain = list(80, (at) => node("Unsqueeze", [at === 0 ? "x" : `v${at}`, "axis"], [`v${at + 1}`]));
    const parts = { inputs: [value("x", "float32", [2])], initializers: [ints("axis", 0)], nodes: chain };
    await expect(create({ ...parts, outputs: [value("v80", "float32")] })).rejects.toThrow(
      /Unsqueeze of "v64": output expanded would have 65 dimensions; 64 is the most/,
    );
  });
});

describe("constants", () => {
  test("beyond the limit run with the model, and give the same", async () => {
    const count = 300;
    const session = await create({
      inputs: [value("x", "float64", [])],
      outputs: [value("y", "float64", [])],
      initializers: [ints("s", 60_000)],
      nodes: [
        ...list(count, (at) =>
          node("ConstantOfShape", ["s"], [`c${at}`], { value: initializer("", "float64", [at + 1], [1]) }),
        ),
        ...list(count, (at) => node("ReduceMax", [`c${at}`], [`m${at}`], { keepdims: 0 })),
        node("Sum", ["x", ...list(count, (at) => `m${at}`)], ["y"]),
      ],
    });
    const { steps } = session.explain({ json: true });
    expect(steps.length).toBeGreaterThan(100);
    expect(steps.length).toBeLessThan(600);
    const { y } = await session.run({ x: new Tensor("float64", [0.5], []) });
    expect([...(y.data as Float64Array)]).toEqual([0.5 + (count * (count + 1)) / 2]);
  });

  test("that take much work are not computed at load, and give the same", async () => {
    const size = 200;
    const session = await create({
      inputs: [value("x", "float32", [1, 1, 1])],
      outputs: [value("y", "float32")],
      initializers: [
        initializer("m", "float32", new Float32Array(16_000).fill(1), [1, 1, 16_000]),
        initializer("w", "float32", new Float32Array(size).fill(1), [1, 1, size]),
      ],
      nodes: [node("Conv", ["m", "w"], ["c"]), node("ReduceMax", ["c"], ["r"]), node("Add", ["x", "r"], ["y"])],
    });
    expect(session.explain({ json: true }).operators).toMatchObject({ Add: 1 });
    const { y } = await session.run({ x: new Tensor("float32", [1], [1, 1, 1]) });
    expect([...(y.data as Float32Array)]).toEqual([size + 1]);
  });

  test("with several outputs of which one is asked for, however large", async () => {
    const session = await create({
      inputs: [value("x", "float32", [1])],
      outputs: [value("y", "float32")],
      initializers: [initializer("m", "float32", new Float32Array(70_000).fill(2), [1, 1, 70_000])],
      nodes: [
        node("MaxPool", ["m"], ["p"], { kernel_shape: [2] }),
        node("ReduceMax", ["p"], ["r"], { keepdims: 0 }),
        node("Add", ["x", "r"], ["y"]),
      ],
    });
    expect([...((await session.run({ x: new Tensor("float32", [1], [1]) }))["y"].data as Float32Array)]).toEqual([3]);
  });

  test("that are sparse may be so many elements together", async () => {
    const sparse = (at: number, size: number): ModelSparseTensor => ({
      values: initializer(`s${at}`, "uint8", [1], [1]),
      indices: initializer("", "int64", [0n], [1]),
      dims: [size],
    });
    const parts = (count: number): Partial<ModelParts> => ({
      inputs: [value("x", "float32", [1])],
      outputs: [value("y", "float32")],
      sparseInitializers: list(count, (at) => sparse(at, 2 ** 22)),
      nodes: [node("Relu", ["x"], ["y"])],
    });
    await expect(create(parts(4))).resolves.toBeDefined();
    await expect(create(parts(5))).rejects.toThrow(/the sparse tensors of the model have more than 16777216 elements/);
  });
});

describe("planning", () => {
  const fits = (lifetimes: Parameters<typeof packArena>[0]): void => {
    const { offsets, bytes } = packArena(lifetimes);
    const byTime = lifetimes.map((_, at) => at).sort((a, b) => lifetimes[a].first - lifetimes[b].first);
    const alive: number[] = [];
    for (const at of byTime) {
      const { bytes: size, first } = lifetimes[at];
      expect(offsets[at] % 64).toBe(0);
      expect(offsets[at] + size).toBeLessThanOrEqual(bytes);
      for (let index = alive.length - 1; index >= 0; index--)
        if (lifetimes[alive[index]].last < first) alive.splice(index, 1);
      for (const other of alive) {
        const apart = offsets[at] + size <= offsets[other] || offsets[other] + lifetimes[other].bytes <= offsets[at];
        if (!apart && size > 0) throw new Error(`${at} and ${other} overlap`);
      }
      if (size > 0) alive.push(at);
    }
  };

  test("buffers that are alive at once never overlap, few or many", () => {
    for (let seed = 0; seed < 60; seed++) {
      const random = seededRandom(seed);
      const count = 1 + Math.floor(random() * 120);
      const reach = random() < 0.5 ? 8 : 120;
      fits(
        list(count, () => {
          const first = Math.floor(random() * 100);
          const last = random() < 0.05 ? Infinity : first + Math.floor(random() * reach);
          return { bytes: Math.floor(random() * 5_000) * (random() < 0.1 ? 0 : 1), first, last };
        }),
      );
    }
    // So many at once that they are placed in another way.
    const random = seededRandom(7);
    fits(list(3_200, (at) => ({ bytes: 1 + Math.floor(random() * 3_000), first: at % 800, last: (at % 800) + 700 })));
  });

  test("what cannot be found out in time is copied, never guessed", async () => {
    // Every scatter's old value is read at the end, and every scatter's result goes through all that lies between.
    const [caches, between] = [1_200, 3_000];
    const nodes: ModelNode[] = [
      ...list(caches, (at) => node("TensorScatter", [`p${at}`, "u", "w"], [`v${at}`], { axis: 1 })),
      node(
        "Sum",
        list(caches, (at) => `v${at}`),
        ["h0"],
      ),
      ...list(between, (at) => node("Add", [`h${at}`, `h${at}`], [`h${at + 1}`])),
      ...list(caches, (at) => node("ReduceMax", [`p${at}`], [`m${at}`], { keepdims: 0 })),
      node(
        "Sum",
        list(caches, (at) => `m${at}`),
        ["z"],
      ),
    ];
    const parts: Partial<ModelParts> = {
      inputs: [
        value("u", "float32", ["b", 1, 2]),
        value("w", "int64", ["b"]),
        ...list(caches, (at) => value(`p${at}`, "float32", ["b", "s", 2])),
      ],
      outputs: [
        value(`h${between}`, "float32"),
        value("z", "float32"),
        ...list(caches, (at) => value(`v${at}`, "float32")),
      ],
      nodes,
    };
    const plan = makePlan(preparedGraphOf(model(parts)).graph);
    const reasons = new Set(plan.verdicts.map(({ inPlace, reason }) => `${inPlace} ${reason}`));
    expect([...reasons]).toEqual([
      "true its other reader comes first",
      "false the graph is too large and too entangled to find out whether every reader of the old value can come first",
    ]);
    const positions = new Map(plan.order.map((each, at) => [each, at]));
    for (const { node: writer, past, inPlace } of plan.verdicts) {
      if (!inPlace) continue;
      for (const reader of plan.uses.readers.get(past)!)
        expect(reader === writer || positions.get(reader)! < positions.get(writer)!).toBe(true);
    }
  });

  test("inputs that decide shapes are found in few compilations, however many there are", () => {
    const count = 200;
    const { graph } = preparedGraphOf(
      model({
        inputs: list(count, (at) => value(`x${at}`, "int64", [1])),
        outputs: list(3, (at) => value(`v${at}`, "float32")),
        nodes: list(3, (at) => node("ConstantOfShape", [`x${at * 50}`], [`v${at}`])),
      }),
    );
    const programs = new ProgramCache(makePlan(graph));
    const inputs = (size: number): View[] => list(count, () => new View("int64", [1], BigInt64Array.of(BigInt(size))));
    expect(programs.get(inputs(2)).steps.every(({ dynamic }) => !dynamic)).toBe(true);
    expect(programs.compilations).toBeLessThanOrEqual(18);
    const before = programs.compilations;
    programs.get(inputs(3));
    expect(programs.compilations).toBe(before + 1);
  });
});

test("an error names a limit, whatever was asked for", async () => {
  const deep = (depth: number): ReturnType<typeof node>[] =>
    depth === 0 ? [node("Relu", ["x"], ["y"])] : [node("Relu", ["x"], [`y${depth}`]), ...deep(depth - 1)];
  await expect(
    create({ inputs: [value("x", "float32", [1])], outputs: [value("y", "float32")], nodes: deep(500) }),
  ).resolves.toBeDefined();
  const names = "n".repeat(300_000);
  const error: unknown = await create({
    inputs: [value("x", "float32", [1])],
    outputs: [value("y", "float32")],
    nodes: [node("Relu", [names], ["y"], {}, { name: names })],
  }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(InsituError);
  expect((error as Error).message.length).toBeLessThan(1_000);
});
