// The fast paths of the element-wise operators: each against the reference, on random shapes, types and layouts, with one to three threads
// and both builds; and that the fast path was taken where it should be, and only there.
import { describe, test } from "vitest";
import { of } from "../../tools/cases/shared/case.js";
import { float } from "../../src/onnx/build.js";
import { type FastCall, type Feed, randomFrom, randomView } from "./fast-path.js";
import {
  checking,
  fedOnce,
  floats,
  narrowed,
  pick,
  randomShape,
  randomWay,
  rounds,
  sizes,
  useVariants,
} from "./light-checks.js";

const check = checking(useVariants());

const unary: Readonly<Record<string, FastCall["attrs"][]>> = {
  Neg: [{}],
  Abs: [{}],
  Sqrt: [{}],
  Reciprocal: [{}],
  Exp: [{}],
  Sigmoid: [{}],
  Tanh: [{}],
  Relu: [{}],
  Erf: [{}],
  Softplus: [{}],
  Softsign: [{}],
  Mish: [{}],
  HardSwish: [{}],
  HardSigmoid: [{}, { alpha: float(0.3), beta: float(0.4) }],
  Gelu: [{}, { approximate: "tanh" }],
  Swish: [{}, { alpha: float(1.7) }],
};
/** Where both sides round a cancelled sum differently, the difference is measured against what was added. */
const absoluteOf: Readonly<Record<string, number>> = {
  HardSwish: 1e-6,
  HardSigmoid: 1e-7,
  Mish: 1e-7,
  Gelu: 1e-7,
  Swish: 1e-7,
};

describe("element-wise operators", () => {
  for (const [op, forms] of Object.entries(unary)) {
    test(`${op}: every float type and layout, special numbers included`, async () => {
      const random = randomFrom(op.length * 31 + op.charCodeAt(0));
      for (let round = 0; round < rounds; round++) {
        const view = randomView(random, pick(random, floats), randomShape(random), {
          special: true,
          spread: pick(random, [1, 4, 20]),
        });
        const way = randomWay(random, view.shape);
        await check({
          op,
          attrs: pick(random, forms),
          inputs: [{ view, as: way === "constant" ? "fed" : way }],
          absolute: absoluteOf[op] ?? 0,
        });
      }
    });
  }

  for (const op of ["Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean"]) {
    test(`${op}: operands are broadcast`, async () => {
      const random = randomFrom(op.length * 57 + op.charCodeAt(1));
      for (let round = 0; round < 2 * rounds; round++) {
        const type = pick(random, floats);
        const shape = randomShape(random);
        const many = ["Min", "Max", "Sum", "Mean"].includes(op) ? 1 + Math.floor(random() * 4) : 2;
        const special = op !== "Sum" && op !== "Mean"; // whose order of rounding shows between large numbers
        const feeds = Array.from({ length: many }, (_, at): Feed => ({
          view: randomView(random, type, at === 0 ? shape : narrowed(random, shape), { special }),
          as: randomWay(random, shape),
        }));
        await check({ op, inputs: fedOnce(random() < 0.5 ? feeds : feeds.toReversed()), absolute: special ? 0 : 4e-6 });
      }
    });
  }

  test("large operands are shared between threads", async () => {
    const random = randomFrom(1);
    for (const [rows, columns] of [
      [1, 300_001],
      [1000, 77],
      [3, 70_000],
      [9001, 3],
    ]) {
      const x = randomView(random, "float32", [rows, columns]);
      await check({
        op: "Add",
        inputs: [{ view: x }, { view: randomView(random, "float16", [columns]) }].map(({ view }) => ({
          view: view.type === "float32" ? view : randomView(random, "float32", view.shape),
        })),
      });
      await check({ op: "Mul", inputs: [{ view: x }, { view: randomView(random, "float32", [rows, 1]) }] });
      await check({ op: "Gelu", inputs: [{ view: x, as: "computed" }], absolute: 1e-7 });
    }
  });

  test("Pow: small constant exponents of any type", async () => {
    const random = randomFrom(2);
    for (const exponent of [0, 1, 2, 3, 4, -1]) {
      for (const type of ["float32", "int64", "int32"] as const) {
        const y = of(type, pick(random, [[], [1], [1, 1]]), [type === "int64" ? BigInt(exponent) : exponent]);
        await check({
          op: "Pow",
          inputs: [
            { view: randomView(random, pick(random, floats), [3, 5], { special: true }) },
            { view: y, as: "constant" },
          ],
        });
      }
    }
    const x = { view: randomView(random, "float32", [4]) };
    await check({ op: "Pow", inputs: [x, { view: of("float32", [], [0.5]), as: "constant" }] }, false);
    await check({ op: "Pow", inputs: [x, { view: of("float32", [], [2]) }] }, false);
  });

  test("Clip: bounds that are operands, attributes or left out", async () => {
    const random = randomFrom(3);
    for (let round = 0; round < rounds; round++) {
      const type = pick(random, floats);
      const bound = (): Feed | undefined =>
        random() < 0.3
          ? undefined
          : {
              view: randomView(random, type, pick(random, [[], [1]]), { special: random() < 0.3 }),
              as: pick(random, ["fed", "constant"]),
            };
      const view = randomView(random, type, randomShape(random, 3), { special: true });
      await check({ op: "Clip", inputs: [{ view, as: pick(random, ["fed", "gaps", "computed"]) }, bound(), bound()] });
      if (type !== "bfloat16")
        await check({ op: "Clip", opset: 6, attrs: { min: float(-1), max: float(2.5) }, inputs: [{ view }] });
    }
  });

  test("SwiGLU and onnxruntime's Gelus", async () => {
    const random = randomFrom(4);
    for (let round = 0; round < rounds; round++) {
      const type = pick(random, floats);
      const shape = [...randomShape(random, 2), pick(random, sizes)];
      const x = (): Feed => ({
        view: randomView(random, type, shape, { special: true }),
        as: pick(random, ["fed", "gaps", "computed"]),
      });
      const bias: Feed = { view: randomView(random, type, [shape.at(-1)!]), as: pick(random, ["fed", "constant"]) };
      const near = { absolute: 2e-6 };
      await check({
        op: "SwiGLU",
        opset: 28,
        attrs: random() < 0.5 ? {} : { alpha: float(1.3) },
        inputs: [x(), { view: randomView(random, type, shape), as: "gaps" }],
        ...near,
      });
      const domain = "com.microsoft";
      await check({ op: "Gelu", domain, inputs: [x()], ...near });
      await check({ op: "BiasGelu", domain, inputs: [x(), bias], ...near });
      await check({ op: "FastGelu", domain, inputs: pick(random, [[x()], [x(), bias]]), ...near });
      await check({ op: "QuickGelu", domain, inputs: [x()], ...near });
    }
  });

  test("what has no kernel runs on the reference implementation", async () => {
    const random = randomFrom(5);
    await check({ op: "Sin", inputs: [{ view: randomView(random, "float64", [3, 4]) }] }, false);
    await check({ op: "Tan", inputs: [{ view: randomView(random, "float32", [3, 4]) }] }, false);
  });

  test("what is broadcast along many dimensions", async () => {
    const random = randomFrom(6);
    const dense = randomView(random, "float32", [5, 2, 5, 2, 5, 2, 5, 3]);
    await check({
      op: "Add",
      inputs: [{ view: dense }, { view: randomView(random, "float32", [1, 2, 1, 2, 1, 2, 1, 3]) }],
      relative: 0,
    });
  });
});
