// What WebGPU makes of rows, beside the reference: reductions along any axes, softmax, extremes and their places, running sums.
import { describe, expect, test } from "vitest";
import { of } from "../../../tools/cases/shared/case.js";
import type { ElementType } from "../../../src/tensor/element-type.js";
import { noWebgpu } from "../../support/backends.js";
import { type Feed, randomFrom, randomView } from "../../wasm/fast-path.js";
import { floats, pick } from "../../wasm/light-checks.js";
import { useDevice } from "./beside.js";

const check = useDevice();
const shapes: readonly (readonly number[])[] = [
  [7],
  [3, 5],
  [2, 3, 8],
  [4, 1, 6, 3],
  [2, 600],
  [1, 1],
  [300, 4],
  [0, 3],
];

const axesInput = (axes: readonly number[]): Feed => ({ view: of("int64", [axes.length], axes), as: "constant" });

describe.skipIf(noWebgpu !== undefined)(`rows${noWebgpu ? `: ${noWebgpu}` : ""}`, () => {
  test.each(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])(
    "Reduce%s along any axes",
    async (name) => {
      const random = randomFrom(name.length * 7 + name.charCodeAt(0));
      for (const [round, shape] of shapes.entries()) {
        const rank = shape.length;
        const view = randomView(random, floats[round % 3], shape, {
          special: round % 2 === 1 && (name === "Max" || name === "Min"),
          spread: name === "Prod" ? 1.5 : 3,
        });
        const feed = { view, as: pick(random, ["fed", "gaps"] as const) };
        const all = Array.from({ length: rank }, (_, axis) => axis);
        const choices = [[-1], [0], rank > 2 ? [0, rank - 1] : all];
        for (const axes of [choices[round % 3], choices[(round + 1) % 3]]) {
          // The rows of a tensor without elements may themselves be empty, which the host does.
          if (axes.some((axis) => shape.at(axis) === 0)) continue;
          const attrs = { keepdims: round % 2 };
          const off = { absolute: 1e-4, relative: view.type === "bfloat16" ? 2 ** -7 : 2e-3 };
          if (round % 3 === 0)
            await check({
              op: `Reduce${name}`,
              opset: 11,
              attrs: { ...attrs, axes },
              inputs: [feed],
              ...off,
              ...old(view.type),
            });
          else await check({ op: `Reduce${name}`, attrs, inputs: [feed, axesInput(axes)], ...off });
        }
      }
      expect.hasAssertions();
    },
  );

  test("whole numbers wrap", async () => {
    const random = randomFrom(3);
    for (const name of ["Sum", "Max", "Min", "Prod", "L1", "SumSquare"])
      for (const type of ["int32", "uint32"] as const) {
        const view = randomView(random, type, [3, 40, 5], { spread: 2 ** 31 });
        for (const axis of [1, 2])
          await check({ op: `Reduce${name}`, inputs: [{ view, as: "gaps" }, axesInput([axis])], relative: 0 });
      }
    for (const type of ["int8", "uint8", "bool"] as const)
      await check({
        op: "ReduceMax",
        opset: 20,
        inputs: [{ view: of(type, [3, 2], [1, 0, 0, 0, 1, 1]), as: "gaps" }, axesInput([1])],
        relative: 0,
      });
    expect.hasAssertions();
  });

  test.each(["Softmax", "LogSoftmax"])("%s along any axis", async (op) => {
    const random = randomFrom(op.length);
    for (const [round, shape] of shapes.entries())
      for (const type of round < 3 ? floats : [floats[round % 3]])
        for (const axis of [-1, 0]) {
          if (shape.at(axis) === 0) continue;
          const view = randomView(random, type, shape, { special: random() < 0.3, spread: 5 });
          const feed = { view, as: pick(random, ["fed", "gaps"] as const) };
          await check({ op, attrs: { axis }, inputs: [feed], absolute: type === "float32" ? 1e-6 : 2e-3 });
        }
    await check({ op, opset: 11, attrs: { axis: 1 }, inputs: [{ view: randomView(random, "float32", [2, 3, 5]) }] });
    expect.hasAssertions();
  });

  test("LpNormalization", async () => {
    const random = randomFrom(5);
    for (const power of [1, 2])
      for (const axis of [0, -1])
        for (const type of floats)
          await check({
            op: "LpNormalization",
            opset: 22,
            attrs: { axis, p: power },
            inputs: [{ view: randomView(random, type, [3, 6]), as: "gaps" }],
          });
    expect.hasAssertions();
  });

  test.each(["ArgMax", "ArgMin"])("%s: the first of equals or the last, NaN before all", async (op) => {
    const random = randomFrom(op.length + op.charCodeAt(3));
    for (const type of [...floats, "int32", "uint32", "int8"] as readonly ElementType[])
      for (const shape of [[7], [3, 5, 4], [2, 10_000], [300, 2]]) {
        const view = randomView(random, type, shape, { special: shape.length === 2 && random() < 0.5, spread: 3 });
        for (const axis of [0, -1])
          await check({
            op,
            attrs: { axis, select_last_index: shape.length % 2, keepdims: 0 },
            inputs: [{ view, as: "gaps" }],
          });
      }
    expect.hasAssertions();
  });

  test("TopK of few", async () => {
    const random = randomFrom(6);
    for (const shape of [[9], [3, 64], [4, 5, 3], [1, 1000]])
      for (const largest of [0, 1])
        for (const axis of [0, -1]) {
          const k = Math.min(4, shape.at(axis)!);
          const view = randomView(random, "float32", shape, { special: true, spread: 2 });
          await check({
            op: "TopK",
            attrs: { axis, largest },
            inputs: [{ view }, axesInput([k])],
            outputs: [true, true],
            relative: 0,
            absolute: 1e-30,
          });
        }
    expect.hasAssertions();
  });

  test("running sums and products", async () => {
    const random = randomFrom(8);
    for (const op of ["CumSum", "CumProd"])
      for (const exclusive of [0, 1])
        for (const axis of [0, 1]) {
          const view = randomView(random, "float32", [6, 5], { spread: 2 });
          await check({
            op,
            opset: 26,
            attrs: { exclusive, reverse: axis },
            inputs: [{ view }, { view: of("int32", [], [axis]), as: "constant" }],
            absolute: 1e-4,
          });
        }
    expect.hasAssertions();
  });
});

/** bfloat16 came with the axes as an input for sums: float32 says the same. */
const old = (type: ElementType): object => (type === "bfloat16" ? { opset: 13 } : {});
