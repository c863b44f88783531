// The fast paths that must agree with the reference to the last bit, on every type they know: comparisons, logic, choices, conversions,
// integers that wrap, reductions, running sums, gathering and triangles; with one to three threads and both builds.
import { describe, test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import { type ElementType, traitsOf } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { type FastCall, type Feed, randomFrom } from "./fast-path.js";
import { checking, fedOnce, narrowed, pick, type Random, randomShape, rounds, useVariants } from "./light-checks.js";

const check = checking(useVariants());

const integers = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"] as const;
const floats = ["float32", "float16", "bfloat16", "float64"] as const;
const numeric: readonly ElementType[] = [...integers, ...floats];
const all: readonly ElementType[] = [...numeric, "bool"];

/** Any bits of a type: its edges, special numbers and subnormals among them. */
function anyBits(random: Random, type: ElementType, shape: readonly number[]): View {
  const view = View.allocate(type, shape);
  const { bits, kind } = traitsOf(type);
  const data = view.data as Uint8Array;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const small = random() < 0.5;
  for (let at = 0; at < bytes.length; at++) {
    if (kind === "bool") bytes[at] = random() < 0.5 ? 1 : 0;
    else if (small && kind === "integer") bytes[at] = at % (bits / 8) === 0 ? Math.floor(random() * 4) : 0;
    else bytes[at] = random() < 0.1 ? pick(random, [0, 255, 127, 128]) : Math.floor(random() * 256);
  }
  return view;
}

/** Ordinary numbers: floats around 0, integers of any size. */
function numbers(random: Random, type: ElementType, shape: readonly number[]): View {
  if (traitsOf(type).kind !== "float") return anyBits(random, type, shape);
  const count = shape.reduce((a, b) => a * b, 1);
  const next = (): number =>
    random() < 0.1
      ? pick(random, [0, -0, NaN, Infinity, -Infinity, 1e30, 2.5, -3.5, 65504, 2 ** 63, -(2 ** 70), 300.7])
      : (random() - 0.5) * 10 ** (random() * 8 - 2);
  return of(type, shape, Array.from({ length: count }, next));
}

const ways = (random: Random, { length }: readonly number[]): Feed["as"] =>
  pick(random, ["fed", "fed", "constant", length > 3 ? "fed" : "gaps"] as const);
const feed = (random: Random, view: View): Feed => ({ view, as: ways(random, view.shape) });

/** Operands of one shape, one or two of them broadcast. */
function operands(random: Random, types: readonly ElementType[], make = anyBits): readonly Feed[] {
  const shape = randomShape(random);
  const whole = Math.floor(random() * types.length);
  return fedOnce(
    types.map((type, at) => feed(random, make(random, type, at === whole ? shape : narrowed(random, shape)))),
  );
}

const exactly = (call: FastCall): Promise<void> => check({ ...call, relative: 0 });
const many = (name: string, once: (random: Random) => Promise<void>, times = 2): void =>
  test(name, async () => {
    const random = randomFrom(name.length * 37 + name.charCodeAt(0));
    for (let round = 0; round < times * rounds; round++) await once(random);
  });

describe("comparisons, logic, choices", () => {
  for (const op of ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
    many(op, async (random) => {
      const type = pick(random, op === "Equal" ? all : numeric);
      await exactly({ op, inputs: operands(random, [type, type]) });
    });
  for (const op of ["And", "Or", "Xor"])
    many(op, (random) => exactly({ op, inputs: operands(random, ["bool", "bool"]) }));
  many("Not", (random) => exactly({ op: "Not", inputs: operands(random, ["bool"]) }), 1);
  many("Where", async (random) => {
    const type = pick(random, all);
    await exactly({ op: "Where", inputs: operands(random, ["bool", type, type]) });
  });
  test("long rows, in pieces and shared by threads", async () => {
    const random = randomFrom(5);
    const [a, b] = [anyBits(random, "bool", [3, 5001]), anyBits(random, "bool", [3, 1])];
    await exactly({ op: "And", inputs: [{ view: a }, { view: b }] });
    const [x, y] = [numbers(random, "float32", [3, 5001]), numbers(random, "float32", [])];
    await exactly({ op: "Where", inputs: [{ view: a }, { view: x }, { view: y }] });
    await exactly({ op: "LessOrEqual", inputs: [{ view: x }, { view: y }] });
    await exactly({ op: "Cast", attrs: { to: 7 }, inputs: [{ view: x }] });
  });
});

describe("integers that wrap", () => {
  for (const op of ["Add", "Sub", "Mul", "Div", "Mod"])
    many(op, async (random) => {
      const type = pick(random, integers);
      await exactly({ op, inputs: operands(random, [type, type]) });
    });
  for (const op of ["Max", "Min"])
    many(op, async (random) => {
      const type = pick(random, integers);
      await exactly({ op, inputs: operands(random, random() < 0.2 ? [type] : [type, type]) });
    });
  for (const op of ["Abs", "Neg", "Sign"])
    many(op, async (random) => {
      const type = pick(random, op === "Neg" ? integers.filter((each) => each.startsWith("int")) : integers);
      await exactly({ op, inputs: operands(random, [type]) });
    });
  for (const op of ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    many(op, async (random) => {
      const type = pick(random, integers);
      await exactly({ op, inputs: operands(random, op === "BitwiseNot" ? [type] : [type, type]) });
    });
  test("the edges of division", async () => {
    const least = -(2n ** 63n);
    const view = of("int64", [6], [least, least, 7n, -7n, 7n, 0n]);
    const by = of("int64", [6], [-1n, 0n, -2n, 2n, 0n, -1n]);
    for (const op of ["Div", "Mod"]) await exactly({ op, inputs: [{ view }, { view: by }] });
  });
});

describe("functions", () => {
  many("float64", async (random) => {
    const op = pick(random, ["Add", "Sub", "Mul", "Div", "Max", "Min"]);
    await exactly({ op, inputs: operands(random, ["float64", "float64"]) });
  });
  for (const op of ["Floor", "Ceil", "Round", "Sign"])
    many(op, (random) => exactly({ op, inputs: operands(random, [pick(random, floats)], numbers) }), 1);
  many("IsNaN", (random) => exactly({ op: "IsNaN", inputs: operands(random, [pick(random, floats)]) }), 1);
  many("Clip", async (random) => {
    const type = pick(random, [...integers, "float64"] as const);
    const bound = (): Feed | undefined => (random() < 0.8 ? { view: numbers(random, type, []) } : undefined);
    await exactly({ op: "Clip", inputs: [...operands(random, [type]), bound(), bound()] });
  });
  for (const op of ["Sin", "Cos"])
    many(op, async (random) => {
      const type = pick(random, ["float32", "float16", "bfloat16"] as const);
      // Angles of any size: two ways to the rest of a turn, which both sides may round differently in the last digit.
      const inputs = operands(random, [type], random() < 0.5 ? numbers : anyBits);
      await check({ op, inputs, ...(type === "float32" ? { relative: 1.2e-7 } : {}) });
    });
});

describe("quantization", () => {
  many("DynamicQuantizeLinear", async (random) => {
    const make = random() < 0.3 ? anyBits : numbers;
    const view = make(random, "float32", randomShape(random));
    await exactly({
      op: "DynamicQuantizeLinear",
      inputs: [{ view }],
      outputs: pick(random, [[true, true, true], [true]]),
    });
  });
  many("QuantizeLinear: one scale", async (random) => {
    const type = pick(random, ["uint8", "int8"] as const);
    const scale: Feed = { view: of("float32", [], [random() * 3]), as: pick(random, ["fed", "constant"]) };
    const zero: Feed = { view: anyBits(random, type, []) };
    await exactly({
      op: "QuantizeLinear",
      inputs: [{ view: numbers(random, "float32", randomShape(random)) }, scale, zero],
    });
  });
  many("DequantizeLinear: one scale, many, blocks", async (random) => {
    const type = pick(random, ["uint8", "int8", "uint16", "int16", "int32"] as const);
    const block = pick(random, [0, 0, 2]);
    const shape = [pick(random, [1, 3]), 4, pick(random, [1, 5])];
    const own = random() < 0.3 ? [] : block === 0 ? [4] : shape.with(1, 2);
    const scale = numbers(random, pick(random, ["float32", "float16", "bfloat16"] as const), own);
    const inputs: Feed[] = [{ view: anyBits(random, type, shape) }, { view: scale }];
    if (type !== "int32" && random() < 0.6) inputs.push({ view: anyBits(random, type, own) });
    const attrs = { axis: own.length === 3 ? 1 : -2, block_size: own.length === 3 ? block : 0 };
    await exactly({ op: "DequantizeLinear", attrs, inputs });
  });
});

describe("conversions", () => {
  many(
    "Cast: from every type to every other",
    async (random) => {
      const [from, to] = [pick(random, all), pick(random, all)];
      const inputs = operands(random, [from], random() < 0.5 ? numbers : anyBits);
      await exactly({ op: "Cast", attrs: { to: traitsOf(to).code }, inputs });
    },
    10,
  );
  test("64-bit integers are rounded once", async () => {
    const values = [2n ** 60n + 2n ** 36n + 1n, 2n ** 53n + 1n, -(2n ** 62n) - 2n ** 54n - 1n, 2n ** 63n - 1n];
    for (const to of [1, 10, 11, 16] as const)
      await exactly({ op: "Cast", attrs: { to }, inputs: [{ view: of("int64", [4], values) }] });
  });
});

describe("folds", () => {
  for (const op of ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"])
    many(op, async (random) => {
      const kinds = ["int32", "uint32", "int64", "uint64", ...floats] as const;
      const type = pick(random, op === "ReduceMean" ? kinds.filter((each) => !each.endsWith("int64")) : kinds);
      await exactly({ ...reduction(random, type), op });
    });
  many("ReduceL2", async (random) => exactly({ ...reduction(random, pick(random, floats)), op: "ReduceL2" }), 1);
  for (const op of ["CumSum", "CumProd"])
    many(op, async (random) => {
      const shape = randomShape(random).concat(pick(random, [1, 3, 300]));
      const type = pick(random, ["int32", "uint32", "int64", "uint64", ...floats] as const);
      const axis = BigInt(Math.floor(random() * 2 * shape.length) - shape.length);
      const attrs = { exclusive: pick(random, [0, 1]), reverse: pick(random, [0, 1]) };
      const data = { view: numbers(random, type, shape), as: pick(random, ["fed", shape.length > 3 ? "fed" : "gaps"]) };
      const inputs = [data as Feed, { view: of("int64", [], [axis]), as: "constant" } as const];
      await exactly({ op, opset: 26, attrs, inputs });
    });
});

function reduction(random: Random, type: ElementType): Omit<FastCall, "op"> {
  const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, [1, 2, 3, 5, 8]));
  if (random() < 0.2) shape[Math.floor(random() * shape.length)] = 301;
  const axes = shape.flatMap((_, axis) =>
    random() < 0.5 ? [BigInt(random() < 0.5 ? axis : axis - shape.length)] : [],
  );
  const way: Feed["as"] = shape.length > 3 ? "fed" : pick(random, ["fed", "gaps"] as const);
  return {
    attrs: { keepdims: pick(random, [0, 1]), noop_with_empty_axes: pick(random, [0, 1]) },
    inputs: [
      { view: numbers(random, type, shape), as: way },
      { view: of("int64", [axes.length], axes), as: "constant" },
    ],
  };
}

describe("gathering and scattering", () => {
  const indicesFor = (
    random: Random,
    type: "int32" | "int64",
    shape: readonly number[],
    sizes: readonly number[],
  ): View =>
    of(
      type,
      shape,
      Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, at) => {
        const size = sizes[at % sizes.length];
        const index = Math.floor(random() * 2 * size) - size;
        return type === "int64" ? BigInt(index) : index;
      }) as number[] | bigint[],
    );
  const dims = [1, 2, 3, 5, 8];
  many("Gather: any axis, runs of any width", async (random) => {
    const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, dims));
    const axis = Math.floor(random() * shape.length);
    const indices = indicesFor(random, pick(random, ["int32", "int64"]), pick(random, [[], [3], [2, 2]]), [
      shape[axis],
    ]);
    const data: Feed = { view: anyBits(random, pick(random, all), shape), as: pick(random, ["fed", "constant"]) };
    await exactly({ op: "Gather", attrs: { axis }, inputs: [data, { view: indices }] });
  });
  many("GatherND", async (random) => {
    const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, dims));
    const batch = Math.floor(random() * shape.length);
    const depth = 1 + Math.floor(random() * (shape.length - batch));
    const own = [...shape.slice(0, batch), ...pick(random, [[], [3], [2, 2]]), depth];
    const indices = indicesFor(random, "int64", own, shape.slice(batch, batch + depth));
    const data = { view: anyBits(random, pick(random, all), shape) };
    const way: Feed["as"] = pick(random, ["fed", "constant"]);
    await exactly({ op: "GatherND", attrs: { batch_dims: batch }, inputs: [data, { view: indices, as: way }] });
  });
  many("GatherElements", async (random) => {
    const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, dims));
    const axis = Math.floor(random() * shape.length);
    const own = shape.map((dim, at) => (at === axis ? pick(random, dims) : 1 + Math.floor(random() * dim)));
    const indices = indicesFor(random, pick(random, ["int32", "int64"]), own, [shape[axis]]);
    const data = { view: anyBits(random, pick(random, all), shape) };
    await exactly({ op: "GatherElements", attrs: { axis: axis - shape.length }, inputs: [data, { view: indices }] });
  });
  many("ScatterND", async (random) => {
    const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, dims));
    const depth = 1 + Math.floor(random() * shape.length);
    const rows = pick(random, [[], [3], [2, 2]]);
    const indices = indicesFor(random, "int64", [...rows, depth], shape.slice(0, depth));
    const type = pick(random, all);
    const updates = { view: anyBits(random, type, [...rows, ...shape.slice(depth)]) };
    await exactly({ op: "ScatterND", inputs: [{ view: anyBits(random, type, shape) }, { view: indices }, updates] });
  });
  many("ScatterElements", async (random) => {
    const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, dims));
    const axis = Math.floor(random() * shape.length);
    const own = shape.map((dim, at) => (at === axis ? pick(random, dims) : 1 + Math.floor(random() * dim)));
    const indices = { view: indicesFor(random, pick(random, ["int32", "int64"]), own, [shape[axis]]) };
    const type = pick(random, all);
    const [data, updates] = [{ view: anyBits(random, type, shape) }, { view: anyBits(random, type, own) }];
    await exactly({ op: "ScatterElements", attrs: { axis }, inputs: [data, indices, updates] });
  });
  many("Trilu", async (random) => {
    const shape = [...randomShape(random, 2), pick(random, [1, 4, 9]), pick(random, [1, 5, 9])];
    const k = pick(random, [undefined, 0, 1, -1, 3, -4, 100, -100]);
    const diagonal: Feed | undefined = k === undefined ? undefined : { view: of("int64", [], [BigInt(k)]) };
    const data: Feed = { view: anyBits(random, pick(random, all), shape) };
    await exactly({ op: "Trilu", attrs: { upper: pick(random, [0, 1]) }, inputs: [data, diagonal] });
  });
});
