// The fast paths of normalisations, softmax and rotary embedding, as in light.test.ts.
import { describe, test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import { float } from "../../src/onnx/build.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import type { View } from "../../src/tensor/view.js";
import { type FastCall, type Feed, randomFrom, randomView } from "./fast-path.js";
import { checking, floats, pick, type Random, randomShape, rounds, sizes, useVariants } from "./light-checks.js";

const check = checking(useVariants());

describe("normalisations", () => {
  /** Rows of small or zero spread magnify rounding: epsilon keeps them tame. */
  const epsilon = float(1e-3);
  const near = (type: ElementType): Partial<FastCall> =>
    type === "float32"
      ? { relative: 4e-6, absolute: 4e-6 }
      : type === "float16"
        ? { relative: 2e-3, absolute: 2e-3 }
        : { relative: 1.6e-2, absolute: 1.6e-2 };

  test("LayerNormalization with and without bias and statistics; RMSNormalization; SimplifiedLayerNormalization", async () => {
    const random = randomFrom(10);
    for (let round = 0; round < 3 * rounds; round++) {
      const type = pick(random, floats);
      const shape = [...randomShape(random, 2), pick(random, sizes), pick(random, [1, 5, 8, 64, 259, 1030])];
      const axis = Math.floor(random() * shape.length);
      const way = pick(random, ["fed", "fed", "gaps", "computed"] as const);
      const ends = shape.slice(axis).filter((dim) => dim !== 1);
      const fits = way !== "gaps" || ends.length === 0 || (ends.length === 1 && shape.at(-1) !== 1);
      const outer = shape.slice(0, axis).filter((dim) => dim !== 1);
      const x: Feed = { view: randomView(random, type, shape), as: way };
      const vector = (): Feed => ({
        view: randomView(random, type, shape.slice(axis)),
        as: pick(random, ["fed", "constant"]),
      });
      const statistics = random() < 0.3;
      const inner = shape.slice(axis).reduce((a, b) => a * b, 1);
      const fast =
        (fits || inner === 0) &&
        !(statistics && shape.includes(0)) &&
        (!statistics || way !== "gaps" || outer.length < 2) &&
        inner <= 65_536;
      if (shape.includes(0) && way === "gaps") continue;
      const attrs = { axis: random() < 0.5 ? axis : axis - shape.length, epsilon };
      await check(
        {
          op: "LayerNormalization",
          attrs,
          inputs: pick(random, [
            [x, vector()],
            [x, vector(), vector()],
          ]),
          outputs: [true, statistics, statistics],
          ...near(type),
        },
        fast,
      );
      await check(
        { op: "RMSNormalization", attrs, inputs: [x, vector()], ...near(type) },
        (fits || inner === 0) && inner <= 65_536,
      );
      await check(
        {
          op: "SimplifiedLayerNormalization",
          domain: "com.microsoft",
          attrs,
          inputs: [x, vector()],
          outputs: [true, statistics],
          ...near(type),
        },
        fast,
      );
    }
  });

  test("Skip variants: a skip without a batch, biases, and every output", async () => {
    const random = randomFrom(11);
    const domain = "com.microsoft";
    for (let round = 0; round < 3 * rounds; round++) {
      const type = pick(random, floats);
      const shape = [
        ...(random() < 0.5 ? [pick(random, [1, 2, 5])] : []),
        pick(random, [1, 3, 8]),
        pick(random, [1, 4, 7, 64, 515]),
      ];
      const skipShape = shape.length === 3 ? pick(random, [shape, shape.slice(1), [1, ...shape.slice(1)]]) : shape;
      const way = (): Feed["as"] => pick(random, ["fed", "gaps", "computed"] as const);
      const vector = (): Feed | undefined => ({
        view: randomView(random, type, [shape.at(-1)!]),
        as: pick(random, ["fed", "constant"]),
      });
      const [input, skip]: Feed[] = [
        { view: randomView(random, type, shape), as: way() },
        { view: randomView(random, type, skipShape), as: way() },
      ];
      const repeated = shape.length === 3 && shape[0] > 1 && skipShape !== shape;
      const apart =
        (repeated || input.as === "gaps" || skip.as === "gaps") &&
        shape.slice(0, -1).filter((dim) => dim > 1).length > 1;
      const statistics = random() < 0.3;
      const bias = random() < 0.4 ? vector() : undefined;
      const sum = random() < 0.7;
      const outputs = [true, statistics, statistics, sum];
      const fast = !statistics || !apart;
      await check(
        {
          op: "SkipLayerNormalization",
          domain,
          attrs: { epsilon },
          inputs: [input, skip, vector(), random() < 0.5 ? vector() : undefined, bias],
          outputs,
          ...near(type),
        },
        fast,
      );
      await check(
        {
          op: "SkipSimplifiedLayerNormalization",
          domain,
          attrs: { epsilon },
          inputs: [input, skip, vector(), bias],
          outputs,
          ...near(type),
        },
        fast,
      );
    }
  });

  test("a scale that differs between rows, mixed types and float64 run on the reference implementation", async () => {
    const random = randomFrom(12);
    const x: Feed = { view: randomView(random, "float32", [4, 4]) };
    await check(
      { op: "RMSNormalization", inputs: [x, { view: randomView(random, "float32", [4, 1]) }], ...near("float32") },
      false,
    );
    await check(
      { op: "RMSNormalization", inputs: [x, { view: randomView(random, "float16", [4]) }], ...near("float16") },
      false,
    );
    await check(
      {
        op: "LayerNormalization",
        inputs: [{ view: randomView(random, "float64", [4, 4]) }, { view: randomView(random, "float64", [4]) }],
        relative: 1e-9,
      },
      false,
    );
  });

  test("Softmax along the last axis, and over several before opset 13", async () => {
    const random = randomFrom(13);
    for (let round = 0; round < 2 * rounds; round++) {
      const type = pick(random, floats);
      const shape = [...randomShape(random, 2), pick(random, [1, 3, 4, 17, 300, 2049])];
      const x: Feed = {
        view: randomView(random, type, shape, { spread: pick(random, [1, 10, 100]) }),
        as: pick(random, ["fed", "gaps", "computed"]),
      };
      if (shape.includes(0) && x.as === "gaps") continue;
      const steps = { relative: type === "float32" ? 2e-6 : type === "float16" ? 3e-3 : 2.4e-2, absolute: 1e-7 };
      await check({ op: "Softmax", attrs: { axis: random() < 0.5 ? -1 : shape.length - 1 }, inputs: [x], ...steps });
      if (type !== "bfloat16" && x.as !== "gaps" && (type === "float32" || x.view.size <= 65_536))
        await check({
          op: "Softmax",
          opset: 11,
          attrs: { axis: Math.floor(random() * shape.length) },
          inputs: [x],
          ...steps,
        });
    }
    await check({
      op: "Softmax",
      inputs: [{ view: of("float32", [3, 2], [-Infinity, -Infinity, Infinity, 1, NaN, 0]) }],
    });
    await check(
      { op: "Softmax", attrs: { axis: 0 }, inputs: [{ view: randomView(random, "float32", [4, 3]) }], relative: 1e-6 },
      false,
    );
  });
});

describe("RotaryEmbedding", () => {
  const positionsOf = (random: Random, batch: number, length: number, rows: number): View =>
    of(
      "int64",
      [batch, length],
      Array.from({ length: batch * length }, () => BigInt(Math.floor(random() * rows))),
    );
  // Both sides round products of 16-bit floats at other places.
  const near = (type: ElementType): Partial<FastCall> =>
    type === "float32"
      ? { relative: 0, absolute: 2e-7 }
      : { relative: 2 ** -10, absolute: type === "float16" ? 8e-3 : 6e-2 };

  test("ONNX's: 3 and 4 dimensions, parts of a head, with and without positions", async () => {
    const random = randomFrom(20);
    for (let round = 0; round < 3 * rounds; round++) {
      const type = pick(random, floats);
      const [batch, heads, length] = [pick(random, [1, 2, 3]), pick(random, [1, 2, 5]), pick(random, [1, 2, 6])];
      const size = 2 * pick(random, [1, 3, 4, 8, 17, 64]);
      const rotated = random() < 0.5 ? size : 2 * Math.ceil((random() * size) / 2) || 2;
      const rows = 9;
      const shape = random() < 0.5 ? [batch, heads, length, size] : [batch, length, heads * size];
      const withPositions = random() < 0.6;
      const table = withPositions ? [rows, rotated / 2] : [batch, length, rotated / 2];
      const angles = (): Feed => ({
        view: randomView(random, type, table, { spread: 1 }),
        as: pick(random, ["fed", "constant"]),
      });
      const x: Feed = { view: randomView(random, type, shape), as: pick(random, ["fed", "gaps", "computed"]) };
      const positions: Feed | undefined = withPositions
        ? { view: positionsOf(random, batch, length, rows), as: pick(random, ["fed", "constant"]) }
        : undefined;
      await check({
        op: "RotaryEmbedding",
        attrs: {
          interleaved: Number(random() < 0.5),
          rotary_embedding_dim: rotated === size ? 0 : rotated,
          num_heads: heads,
        },
        inputs: [x, angles(), angles(), positions],
        ...near(type),
      });
    }
  });

  test("onnxruntime's: one offset, or a position for every token", async () => {
    const random = randomFrom(21);
    for (let round = 0; round < 2 * rounds; round++) {
      const type = pick(random, floats);
      const [batch, heads, length, size] = [
        pick(random, [1, 2, 3]),
        pick(random, [1, 4]),
        pick(random, [1, 5]),
        2 * pick(random, [2, 5, 32]),
      ];
      const shape = random() < 0.5 ? [batch, heads, length, size] : [batch, length, heads * size];
      const rows = 12;
      const angles = (): Feed => ({
        view: randomView(random, type, [rows, size / 2], { spread: 1 }),
        as: pick(random, ["fed", "constant"]),
      });
      const positions =
        random() < 0.5
          ? of("int64", [1], [BigInt(Math.floor(random() * (rows - length + 1)))])
          : positionsOf(random, batch, length, rows);
      await check({
        op: "RotaryEmbedding",
        domain: "com.microsoft",
        attrs: { interleaved: Number(random() < 0.5), num_heads: pick(random, [0, heads]) },
        inputs: [
          { view: randomView(random, type, shape), as: pick(random, ["fed", "gaps", "computed"]) },
          { view: positions },
          angles(),
          angles(),
        ],
        ...near(type),
        ...(type === "float32" ? { absolute: 1e-6 } : {}),
      });
    }
  });
});
