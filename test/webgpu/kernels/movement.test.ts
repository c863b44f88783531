// Moving elements on WebGPU beside the reference, to the bit: types of every size, odd lengths, gaps, and units from a byte to four words.
import { describe, expect, test } from "vitest";
import { of } from "../../../tools/cases/shared/case.js";
import { type ElementType, traitsOf } from "../../../src/tensor/element-type.js";
import { Tensor } from "../../../src/tensor/tensor.js";
import { bytesIn, View } from "../../../src/tensor/view.js";
import { noWebgpu } from "../../support/backends.js";
import { type Feed, randomFrom } from "../../wasm/fast-path.js";
import { pick, type Random } from "../../wasm/light-checks.js";
import { useDevice } from "./beside.js";

const check = useDevice();
const types = ["float32", "float16", "int8", "int64", "bool"] as const;
const ints = (values: readonly number[], type: ElementType = "int64"): Feed => ({
  view: of(type, [values.length], values),
  as: "constant",
});

/** Bytes at random, below 2 where they are bools. */
function randomBits(random: Random, type: ElementType, shape: readonly number[]): View {
  const view = View.allocate(type, shape);
  const most = traitsOf(type).kind === "bool" ? 2 : 127;
  bytesIn(view).forEach((_, at, bytes) => (bytes[at] = Math.floor(random() * most)));
  return view;
}

/** On the device, with gaps or without: what is on the host and whole-numbered stays there. */
const fed = (random: Random, type: ElementType, shape: readonly number[]): Feed => ({
  view: randomBits(random, type, shape),
  as: traitsOf(type).kind === "float" && random() < 0.5 ? "fed" : "gaps",
});

describe.skipIf(noWebgpu !== undefined)(`movement${noWebgpu ? `: ${noWebgpu}` : ""}`, () => {
  test.each(types)("%s: strided copies", async (type) => {
    const random = randomFrom(21);
    for (const shape of [
      [2, 3, 8],
      [3, 5, 7],
      [1, 1],
      [4, 0, 2],
      [2, 4, 16],
    ]) {
      const data = (): Feed => fed(random, type, shape);
      const order = shape.map((_, axis) => axis);
      for (const perm of [undefined, [1, 0, ...order.slice(2)]])
        await check({ op: "Transpose", attrs: perm === undefined ? {} : { perm }, inputs: [data()], relative: 0 });
      await check({ op: "Tile", inputs: [data(), ints(shape.map((_, axis) => 1 + (axis % 2)))], relative: 0 });
      await check({ op: "Expand", inputs: [data(), ints([2, ...shape])], relative: 0 });
      await check({
        op: "Slice",
        inputs: [data(), ints([-1, 0]), ints([-100, 100]), ints([-1, 0]), ints([pick(random, [-1, -2]), 1])],
        relative: 0,
      });
      await check({ op: "Slice", inputs: [data(), ints([1]), ints([9]), ints([shape.length - 1])], relative: 0 });
      await check({ op: "Trilu", attrs: { upper: shape[0] % 2 }, inputs: [data(), ints([1])], relative: 0 });
    }
    for (const [mode, op] of [
      ["DCR", "DepthToSpace"],
      ["CRD", "DepthToSpace"],
      ["DCR", "SpaceToDepth"],
    ])
      await check({
        op,
        attrs: { blocksize: 2, ...(op === "DepthToSpace" ? { mode } : {}) },
        inputs: [fed(random, type, [2, 8, 4, 2])],
        relative: 0,
      });
    expect.hasAssertions();
  });

  test("Expand repeats rows and single elements", async () => {
    const random = randomFrom(22);
    for (const type of types)
      for (const [shape, asked] of [
        [
          [3, 1, 8],
          [3, 4, 8],
        ],
        [
          [3, 5, 1],
          [3, 5, 6],
        ],
        [[1], [9]],
        [[], [2, 2]],
      ])
        await check({ op: "Expand", inputs: [fed(random, type, shape), ints(asked)], relative: 0 });
    expect.hasAssertions();
  });

  test.each(types)("%s: joined and cut", async (type) => {
    const random = randomFrom(23);
    for (const [before, parts, after] of [
      [[2], [3, 5], [4]],
      [[2, 3], [4, 8, 4], []],
      [[], [1, 0, 7], [3]],
      [[3], [2, 1], [1]],
      [[1, 2], [1, 1, 1, 1], [8]],
    ] as const) {
      const axis = before.length;
      const inputs = parts.map((part) => fed(random, type, [...before, part, ...after]));
      await check({ op: "Concat", attrs: { axis }, inputs, relative: 0 });
      const total = parts.reduce<number>((sum, part) => sum + part, 0);
      await check({
        op: "Split",
        attrs: { axis: axis - before.length - 1 - after.length },
        inputs: [fed(random, type, [...before, total, ...after]), ints(parts)],
        outputs: parts.map(() => true),
        relative: 0,
      });
    }
    expect.hasAssertions();
  });

  test.each(types)("%s: picked by indices", async (type) => {
    const random = randomFrom(24);
    for (const indexType of ["int64", "int32"] as const)
      for (const [shape, axis, picks] of [
        [[5, 8], 0, [2, 3]],
        [[5, 7], 0, [3]],
        [[2, 4, 6], 1, []],
        [[2, 4, 6], -1, [1]],
        [[3, 2], 0, [0]],
      ] as const) {
        const size = shape.at(axis)!;
        const count = picks.reduce<number>((product, dim) => product * dim, 1);
        const numbers = Array.from({ length: count }, () => Math.floor(random() * 2 * size) - size);
        const indices = { view: of(indexType, picks, numbers) };
        await check({ op: "Gather", attrs: { axis }, inputs: [fed(random, type, shape), indices], relative: 0 });
      }
    const elements = of("int64", [2, 4], [0, -1, 2, 1, 1, 0, -2, 2]);
    await check({
      op: "GatherElements",
      attrs: { axis: 0 },
      inputs: [fed(random, type, [3, 5]), { view: elements }],
      relative: 0,
    });
    for (const [shape, rows, batch] of [
      [[3, 4, 5], of("int64", [2, 2], [0, -1, 2, 1]), 0],
      [[2, 3, 8], of("int64", [2, 1], [-1, 1]), 1],
      [[2, 3], of("int64", [2, 2, 1], [0, 1, 2, -3]), 1],
    ] as const)
      await check({
        op: "GatherND",
        attrs: { batch_dims: batch },
        inputs: [fed(random, type, shape), { view: rows }],
        relative: 0,
      });
    expect.hasAssertions();
  });

  test.each(types)("%s: padded, turned round and filled", async (type) => {
    const random = randomFrom(25);
    for (const mode of ["constant", "edge", "reflect", "wrap"])
      for (const pads of [
        [1, 0, 0, 2, 3, 1],
        [0, 5, 4, 0, 0, 9],
      ])
        await check({ op: "Pad", attrs: { mode }, inputs: [fed(random, type, [2, 3, 4]), ints(pads)], relative: 0 });
    await check({
      op: "Pad",
      inputs: [fed(random, type, [3, 4]), ints([1, -2, 0, 3]), { view: randomBits(random, type, []), as: "gaps" }],
      relative: 0,
    });
    await check({
      op: "ReverseSequence",
      attrs: { batch_axis: 0, time_axis: 1 },
      inputs: [fed(random, type, [3, 4, 5]), { view: of("int64", [3], [4, 1, 3]) }],
      relative: 0,
    });
    for (const axis of [0, -1])
      await check({
        op: "OneHot",
        attrs: { axis },
        inputs: [
          { view: of("int64", [5], [0n, -1n, 7n, 2n, 2n ** 32n + 1n]) },
          ints([4]),
          { view: randomBits(random, type, [2]), as: "gaps" },
        ],
        relative: 0,
      });
    expect.hasAssertions();
  });

  test("one value over and over", async () => {
    for (const value of [
      of("float32", [1], [1.5]),
      of("float16", [1], [-2]),
      of("int64", [1], [-3n]),
      of("int8", [1], [7]),
    ])
      for (const count of [200_001, 262_144])
        await check({
          op: "ConstantOfShape",
          attrs: { value: Tensor.fromView(value) },
          inputs: [{ view: of("int64", [1], [count]) }],
          relative: 0,
        });
    expect.hasAssertions();
  });

  test.each(["float32", "float16", "bfloat16", "int32", "uint8", "bool"] as const)(
    "%s: ones on a diagonal",
    async (type) => {
      const random = randomFrom(26);
      for (const shape of [
        [3, 5],
        [7, 2],
        [1, 1],
        [0, 4],
      ])
        for (const k of [0, 1, -2, 9, -(2 ** 40)])
          await check({ op: "EyeLike", attrs: { k }, inputs: [fed(random, type, shape)], relative: 0 });
      expect.hasAssertions();
    },
  );

  test("ones on a diagonal: of another type than the operand's, and of one that shaders do not know", async () => {
    const operand = (): Feed => ({ view: randomBits(randomFrom(27), "float32", [3, 4]), as: "gaps" });
    await check({ op: "EyeLike", attrs: { dtype: 2 }, inputs: [operand()], relative: 0 });
    await check({ op: "EyeLike", attrs: { dtype: 11 }, inputs: [operand()], relative: 0, taken: false });
  });
});
