// Elementwise work on WebGPU beside the reference: every operator that has a kernel, on random shapes, types and layouts, special numbers
// included.
import { describe, expect, test } from "vitest";
import { of } from "../../../tools/cases/shared/case.js";
import type { Feed } from "../../wasm/fast-path.js";
import { float } from "../../../src/onnx/build.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { traitsOf } from "../../../src/tensor/element-type.js";
import { bytesIn, View } from "../../../src/tensor/view.js";
import { readNumbers, writeNumbers } from "../../../src/tensor/access.js";
import { noWebgpu } from "../../support/backends.js";
import { type FastCall, randomFrom, randomView } from "../../wasm/fast-path.js";
import { floats, narrowed, pick, type Random, randomShape } from "../../wasm/light-checks.js";
import { useDevice } from "./beside.js";
import { soak } from "../../support/soak.js";

const check = useDevice();
const rounds = soak ? 60 : 3;
const integers = ["int32", "uint32", "int16", "uint16", "int8", "uint8"] as const;

/** Whole numbers from all over a type, its ends included. */
function randomIntegers(random: Random, type: ElementType, shape: readonly number[]): View {
  const { bits, signed, kind } = traitsOf(type);
  const view = View.allocate(type, shape);
  const least = signed ? -(2 ** (bits - 1)) : 0;
  const count = kind === "bool" ? 2 : 2 ** bits;
  const next = (): number =>
    pick(random, [least + Math.floor(random() * count), Math.floor(random() * Math.min(9, count)), least]);
  writeNumbers(view, Array.from({ length: view.size }, next));
  return view;
}

const randomOf = (random: Random, type: ElementType, shape: readonly number[]): View =>
  traitsOf(type).kind === "float"
    ? randomView(random, type, shape, { special: true, spread: pick(random, [1, 4, 20]) })
    : randomIntegers(random, type, shape);

/** How an operand comes to the device: whole numbers lie there, or their work would be the host's. */
const way = (random: Random, { shape, type }: View): Feed["as"] =>
  traitsOf(type).kind !== "float" || shape.length > 3 ? "gaps" : pick(random, ["fed", "gaps", "computed"] as const);

const laidOut = (random: Random, view: View): Feed => ({ view, as: way(random, view) });

const unary: Readonly<Record<string, FastCall["attrs"][]>> = {
  Neg: [{}],
  Abs: [{}],
  Sign: [{}],
  Sqrt: [{}],
  Reciprocal: [{}],
  Exp: [{}],
  Log: [{}],
  Sin: [{}],
  Cos: [{}],
  Floor: [{}],
  Ceil: [{}],
  Round: [{}],
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
  Elu: [{ alpha: float(1.5) }],
  Celu: [{ alpha: float(1.5) }],
  Selu: [{}],
  LeakyRelu: [{ alpha: float(0.1) }],
  ThresholdedRelu: [{ alpha: float(0.7) }],
};

describe.skipIf(noWebgpu !== undefined)(`elementwise work${noWebgpu ? `: ${noWebgpu}` : ""}`, () => {
  test.each(Object.keys(unary))("%s: every float type and layout", async (op) => {
    const random = randomFrom(op.length * 31 + op.charCodeAt(0));
    for (let round = 0; round < rounds; round++)
      await check({
        op,
        attrs: pick(random, unary[op]),
        inputs: [laidOut(random, randomOf(random, floats[round % 3], randomShape(random)))],
        absolute: 2e-7,
      });
    expect.hasAssertions();
  });

  test("whole numbers wrap, at every size", async () => {
    const random = randomFrom(7);
    for (const op of ["Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Max", "Min", "Mod"])
      for (const type of [pick(random, integers), pick(random, integers)]) {
        const shape = randomShape(random, 3);
        const inputs = [shape, narrowed(random, shape)].map((own) => laidOut(random, randomOf(random, type, own)));
        await check({ op, inputs, relative: 0 });
      }
    for (const op of ["Neg", "Abs", "Sign", "Relu", "BitwiseNot"])
      for (const type of ["int32", "int16", "int8"] as const)
        await check({ op, inputs: [laidOut(random, randomOf(random, type, [3, 7]))], relative: 0 });
    for (const direction of ["LEFT", "RIGHT"])
      for (const type of integers)
        await check({
          op: "BitShift",
          opset: 28,
          attrs: { direction },
          inputs: [0, 1].map(() => laidOut(random, randomOf(random, type, [5, 4]))),
          relative: 0,
        });
    expect.hasAssertions();
  });

  test("operands are broadcast, wherever they lie", async () => {
    const random = randomFrom(8);
    for (const op of ["Less", "Equal", "GreaterOrEqual"])
      for (const type of floats) {
        const shape = randomShape(random);
        const views = [shape, narrowed(random, shape)].map((own) => randomOf(random, type, own));
        await check({ op, inputs: views.map((view) => ({ view, as: "gaps" })) });
      }
    for (const op of ["Add", "Mul", "Div", "Sub", "Max", "Min", "Sum", "Mean"])
      for (let round = 0; round < rounds; round++) {
        const type = floats[round % 3];
        const shape = randomShape(random);
        const inputs = [shape, narrowed(random, shape)].map((own) => laidOut(random, randomOf(random, type, own)));
        await check({ op, inputs: random() < 0.5 ? inputs : inputs.toReversed(), absolute: 1e-6 });
      }
    for (const shapes of [
      [[2, 3, 8], [8]],
      [
        [2, 3, 8],
        [2, 3, 1],
      ],
      [[4, 8], []],
      [
        [3, 1, 12],
        [1, 5, 12],
      ],
      [[1], [1]],
      [[0, 3], [3]],
    ])
      for (const type of floats)
        await check({ op: "Add", inputs: shapes.map((shape) => ({ view: randomView(random, type, shape) })) });
    expect.hasAssertions();
  });

  test("Where hands on bits, whatever they mean", async () => {
    const random = randomFrom(9);
    for (const type of [...floats, ...integers, "bool"] as const) {
      const shape = randomShape(random, 3);
      const condition = randomOf(random, "bool", narrowed(random, shape));
      const inputs = [condition, randomOf(random, type, shape), randomOf(random, type, narrowed(random, shape))];
      await check({ op: "Where", inputs: inputs.map((view) => laidOut(random, view)), relative: 0 });
    }
    expect.hasAssertions();
  });

  test("Cast among all types of shaders", async () => {
    const random = randomFrom(10);
    const types = [...floats, ...integers, "bool"] as const;
    for (const source of types)
      for (const target of types) {
        const view = randomOf(random, source, [pick(random, [3, 8, 37])]);
        const twice = target === "bfloat16" && (source === "int32" || source === "uint32");
        await check({
          op: "Cast",
          attrs: { to: traitsOf(target).code },
          inputs: [{ view, as: "gaps" }],
          relative: source === "float32" && target === "float32" ? undefined : 0,
          taken: !twice,
        });
      }
    expect.hasAssertions();
  });

  test("Pow, Clip, SwiGLU, PRelu and questions", async () => {
    const random = randomFrom(11);
    for (let round = 0; round < 2 * rounds; round++) {
      const type = floats[round % 3];
      const shape = randomShape(random);
      const x = randomOf(random, type, shape);
      const exponent = pick(random, [
        of("float32", [], [pick(random, [2, 3, 0.5, -0.5, -2, 0, 7.25])]),
        randomOf(random, "float32", narrowed(random, shape)),
      ]);
      await check({ op: "Pow", inputs: [laidOut(random, x), laidOut(random, exponent)], relative: 2e-2 });
      await check({ op: "Clip", inputs: [{ view: x }, { view: of(type, [], [-1]) }, { view: of(type, [], [2]) }] });
      await check({
        op: "SwiGLU",
        opset: 28,
        // A gate that is too small for a device that flushes such numbers is 0 there, and 0 times infinity is no number.
        inputs: [x, randomView(random, type, shape)].map((view) => laidOut(random, view)),
        absolute: 1e-6,
      });
      await check({ op: "PRelu", inputs: [laidOut(random, x), { view: randomView(random, type, []) }] });
      await check({ op: "IsNaN", opset: 20, inputs: [{ view: x, as: "gaps" }] });
      await check({
        op: "IsInf",
        opset: 20,
        attrs: { detect_negative: round % 2 },
        inputs: [{ view: x, as: "gaps" }],
      });
    }
    expect.hasAssertions();
  });

  test("angles of every size", async () => {
    const angles = Array.from({ length: 400 }, (_, at) => (at % 2 === 0 ? 1 : -1) * 10 ** (at / 12 - 5));
    const positions = Array.from({ length: 300 }, (_, at) => at * 109.5);
    for (const op of ["Sin", "Cos"])
      await check({ op, inputs: [{ view: of("float32", [700], [...angles, ...positions]) }], absolute: 1e-6 });
    expect.hasAssertions();
  });

  test("every half, and what lies in between, is rounded to the nearest", async () => {
    const halves = View.allocate("float16", [2 ** 16]);
    new Uint16Array(bytesIn(halves).buffer).forEach((_, bits, all) => (all[bits] = bits));
    await check({ op: "Cast", attrs: { to: traitsOf("float32").code }, inputs: [{ view: halves }], relative: 0 });
    const exact = Float32Array.from(readNumbers(halves));
    const between = exact.map((value, at) => (value + exact[(at + 1) % exact.length]) / 2);
    const beside = between.map((value, at) => value * (1 + (at % 2 === 0 ? 1 : -1) * 2 ** -23));
    for (const values of [exact, between, beside]) {
      const view = of("float32", [values.length], [...values]);
      await check({ op: "Cast", attrs: { to: traitsOf("float16").code }, inputs: [{ view }], relative: 0 });
    }
    expect.hasAssertions();
  });
});
