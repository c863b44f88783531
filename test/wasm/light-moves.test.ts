// The fast paths of gathering, conversions and moves, as in light.test.ts; what points outside is refused; and calls are judged anew.
import { describe, expect, test } from "vitest";
import { prepareReference } from "../../src/backends/reference/reference.js";
import { of } from "../../tools/cases/shared/case.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { differenceOf, type FastCall, type Feed, planOf, randomFrom, randomView, withGaps } from "./fast-path.js";
import { checking, fedOnce, floats, pick, type Random, randomShape, rounds, useVariants } from "./light-checks.js";
import { bufferOn, runOn } from "../support/executable.js";

const variants = useVariants();
const check = checking(variants);

describe("gathering", () => {
  test("Gather: every type whose rows are whole bytes, negative indices", async () => {
    const random = randomFrom(30);
    for (let round = 0; round < 3 * rounds; round++) {
      const type = pick(random, [...floats, "float64", "int64", "int32", "int8", "bool"] as ElementType[]);
      const shape = [pick(random, [1, 3, 9]), pick(random, [4, 12, 1028]), ...(random() < 0.3 ? [4] : [])];
      const axis = random() < 0.8 || shape.length < 3 ? 0 : 1;
      const entries = shape[axis];
      const indexType = pick(random, ["int32", "int64"] as const);
      const count = pick(random, [[], [1], [5], [2, 3], [0]]);
      const values = Array.from(
        { length: count.reduce((a, b) => a * b, 1) },
        () => Math.floor(random() * 2 * entries) - entries,
      );
      const indices = of(indexType, count, indexType === "int64" ? values.map(BigInt) : values);
      await check({
        op: "Gather",
        attrs: { axis },
        inputs: [{ view: randomView(random, type, shape), as: pick(random, ["fed", "constant"]) }, { view: indices }],
        relative: 0,
      });
    }
    await check(
      {
        op: "Gather",
        inputs: [{ view: randomView(random, "float32", [4, 3]), as: "gaps" }, { view: of("int64", [1], [1n]) }],
      },
      false,
    );
  });

  test("GatherBlockQuantized: bytes of 2, 4 and 8 bits, and uint4", async () => {
    const random = randomFrom(31);
    const domain = "com.microsoft";
    const bytes = (type: "uint8" | "uint4", shape: readonly number[]): View => {
      const view = View.allocate(type, shape);
      (view.data as Uint8Array).forEach((_, at, data) => (data[at] = Math.floor(random() * 256)));
      return view;
    };
    for (let round = 0; round < 2 * rounds; round++) {
      const packed = random() < 0.3;
      const bits = packed ? 4 : pick(random, [2, 4, 8]);
      const blockSize = pick(random, [16, 32, 128]);
      const blocks = packed ? pick(random, [2, 4]) : pick(random, [1, 2, 3, 9]);
      const [entries, width] = [5, blocks * blockSize];
      const type = pick(random, floats);
      const zeros =
        packed || random() < 0.5
          ? bytes(packed ? "uint4" : "uint8", [entries, packed ? blocks : Math.ceil((blocks * bits) / 8)])
          : undefined;
      const inputs: (Feed | undefined)[] = [
        { view: bytes(packed ? "uint4" : "uint8", [entries, packed ? width : (width * bits) / 8]), as: "constant" },
        { view: of("int64", [2, 2], [0n, 4n, -1n, 2n]) },
        { view: randomView(random, type, [entries, blocks]), as: "constant" },
        zeros && { view: zeros, as: "constant" },
      ];
      await check({ op: "GatherBlockQuantized", domain, attrs: { bits, block_size: blockSize }, inputs, relative: 0 });
    }
  });

  test("what points outside is refused in the reference implementation's words, and does not stick", async () => {
    const table: Feed = { view: of("float32", [3, 2], [1, 2, 3, 4, 5, 6]), as: "constant" };
    const angles: Feed = { view: of("float32", [3, 1], [1, 0, -1]), as: "constant" };
    const quantized: Feed[] = [
      { view: View.allocate("uint8", [3, 16]), as: "constant" },
      { view: of("float32", [3, 2], [1, 2, 3, 4, 5, 6]), as: "constant" },
    ];
    const gather = (index: bigint): FastCall => ({
      op: "Gather",
      inputs: [table, { view: of("int64", [1], [index]) }],
    });
    const rotate = (position: bigint): FastCall => ({
      op: "RotaryEmbedding",
      inputs: [
        { view: of("float32", [1, 1, 1, 2], [1, 2]) },
        angles,
        angles,
        { view: of("int64", [1, 1], [position]) },
      ],
    });
    const offset = (position: bigint): FastCall => ({
      op: "RotaryEmbedding",
      domain: "com.microsoft",
      inputs: [
        { view: of("float32", [1, 1, 2, 2], [1, 2, 3, 4]) },
        { view: of("int64", [1], [position]) },
        angles,
        angles,
      ],
    });
    const blocks = (index: bigint): FastCall => ({
      op: "GatherBlockQuantized",
      domain: "com.microsoft",
      attrs: { block_size: 16, bits: 8 },
      inputs: [
        { view: View.allocate("uint8", [3, 32]), as: "constant" },
        { view: of("int64", [1], [index]) },
        quantized[1],
      ],
    });
    for (const [make, good, bad, message] of [
      [gather, [2n, -3n], [3n, -4n, 2n ** 32n, -(2n ** 40n)], /indices\[0\] must lie in \[-3, 2\], got/],
      [rotate, [2n, -3n], [3n, -4n, 2n ** 32n], /position_ids must lie in \[-3, 2\], the rows of the caches, got/],
      [offset, [0n, 1n], [2n, -1n], /position_ids must lie in \[0, 1\] for caches of 3 rows and 2 tokens, got/],
      [blocks, [2n, -3n], [3n, -4n], /indices\[0\] must lie in \[-3, 2\], got/],
    ] as const) {
      for (const variant of variants) {
        const plan = planOf(make(good[0]));
        const executable = variant.session.prepare(plan);
        const viewsOf = (call: FastCall): View[] =>
          call.inputs.flatMap((feed) => (feed === undefined || feed.as === "constant" ? [] : [feed.view]));
        const oracle = prepareReference(plan);
        for (const value of [...good, ...bad, ...good]) {
          const views = viewsOf(make(value));
          const run = runOn(executable, views);
          if ((bad as readonly bigint[]).includes(value)) await expect(run, `${value}`).rejects.toThrow(message);
          else {
            const expected = await runOn(oracle, views);
            const [actual, wanted] = [[...(await run).values()][0], [...expected.values()][0]];
            expect(differenceOf(actual, wanted), `${value}`).toBe("");
          }
        }
      }
    }
  });
});

describe("conversions and moves", () => {
  test("Cast and CastLike between the floats, and from a type to itself", async () => {
    const random = randomFrom(40);
    for (let round = 0; round < 3 * rounds; round++) {
      const [from, to] = [pick(random, floats), pick(random, floats)];
      const code = { float32: 1, float16: 10, bfloat16: 16 }[to];
      const x: Feed = {
        view: randomView(random, from, randomShape(random, 3), { special: true }),
        as: pick(random, ["fed", "gaps", "computed"]),
      };
      await check({ op: "Cast", attrs: { to: code }, inputs: [x], relative: 0 });
      await check({ op: "CastLike", inputs: [x, { view: randomView(random, to, [2]) }], relative: 0 });
    }
    await check({ op: "Cast", attrs: { to: 7 }, inputs: [{ view: randomView(random, "int64", [5]) }] });
    await check({ op: "Cast", attrs: { to: 17 }, inputs: [{ view: randomView(random, "int64", [5]) }] }, false);
  });

  const types: readonly ElementType[] = ["float32", "float16", "int64", "int8", "bool", "float64"];
  const moved = (random: Random, shape: readonly number[]): Feed => ({
    view: randomView(random, pick(random, types), shape),
    as: pick(random, ["fed", "gaps"]),
  });

  test("Transpose: any order, any type", async () => {
    const random = randomFrom(41);
    for (let round = 0; round < 3 * rounds; round++) {
      const shape = Array.from({ length: Math.floor(random() * 8) }, () => pick(random, [1, 2, 3, 4]));
      const perm = shape.map((_, axis) => axis).sort(() => random() - 0.5);
      await check({
        op: "Transpose",
        attrs: random() < 0.8 && shape.length > 0 ? { perm } : {},
        inputs: [moved(random, shape)],
        relative: 0,
      });
    }
    for (const shape of [
      [1, 700, 8, 64],
      [600, 700],
    ])
      await check({
        op: "Transpose",
        attrs: { perm: shape.length === 4 ? [0, 2, 1, 3] : [1, 0] },
        inputs: [{ view: randomView(random, "float32", shape) }],
        relative: 0,
      });
    for (const [rows, columns] of [
      [4, 4],
      [5, 7],
      [16, 4],
      [35, 18],
      [3, 50],
    ]) {
      for (const type of ["float32", "int32", "float16"] as const) {
        for (const as of ["fed", "gaps"] as const) {
          const view = randomView(random, type, [2, rows, columns]);
          await check({ op: "Transpose", attrs: { perm: [0, 2, 1] }, inputs: [{ view, as }], relative: 0 });
        }
      }
    }
    // Half-byte elements move where they do so in whole bytes.
    const half = View.allocate("int4", [3, 2, 4]);
    (half.data as Uint8Array).forEach((_, at, data) => (data[at] = at * 37));
    await check({ op: "Transpose", attrs: { perm: [1, 0, 2] }, inputs: [{ view: half }], relative: 0 });
    await check({ op: "Transpose", attrs: { perm: [2, 1, 0] }, inputs: [{ view: half }], relative: 0 }, false);
  });

  test("Slice: starts, ends, axes and steps that are constant, backwards too", async () => {
    const random = randomFrom(42);
    const list = (values: readonly number[]): Feed => ({
      view: of("int64", [values.length], values.map(BigInt)),
      as: "constant",
    });
    for (let round = 0; round < 3 * rounds; round++) {
      const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, [1, 3, 6, 17]));
      const axes = shape.map((_, axis) => axis).filter(() => random() < 0.6);
      const any = (): number => Math.floor(random() * 40) - 20;
      const steps = axes.map(() => pick(random, [1, 1, 2, 3, -1, -2]));
      await check({
        op: "Slice",
        inputs: [moved(random, shape), list(axes.map(any)), list(axes.map(any)), list(axes), list(steps)],
        relative: 0,
      });
      await check({
        op: "Slice",
        opset: 9,
        attrs: { starts: axes.map(any), ends: axes.map(any), ...(axes.length === 0 ? {} : { axes }) },
        inputs: [moved(random, shape)],
        relative: 0,
      });
    }
  });

  test("Concat and Split: any axis", async () => {
    const random = randomFrom(43);
    for (let round = 0; round < 3 * rounds; round++) {
      const shape = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(random, [1, 2, 3, 8]));
      const axis = Math.floor(random() * shape.length);
      const type = pick(random, types);
      const parts = [1, ...Array.from({ length: Math.floor(random() * 3) }, () => pick(random, [0, 1, 2, 5]))];
      const feeds = parts.map((part): Feed => ({
        view: randomView(random, type, shape.with(axis, part)),
        as: pick(random, part === 0 ? ["fed"] : ["fed", "gaps", "constant"]),
      }));
      await check({
        op: "Concat",
        attrs: { axis: random() < 0.5 ? axis : axis - shape.length },
        inputs: fedOnce(feeds),
        relative: 0,
      });
      const whole: Feed = {
        view: randomView(
          random,
          type,
          shape.with(
            axis,
            parts.reduce((a, b) => a + b, 0),
          ),
        ),
      };
      await check({
        op: "Split",
        attrs: { axis },
        inputs: [whole, { view: of("int64", [parts.length], parts.map(BigInt)), as: "constant" }],
        outputs: parts.map(() => true),
        relative: 0,
      });
    }
    await check({
      op: "Concat",
      attrs: { axis: 0 },
      inputs: [{ view: randomView(random, "float32", [400_000]) }, { view: randomView(random, "float32", [7]) }],
      relative: 0,
    });
  });

  test("Expand and Tile: repeated elements", async () => {
    const random = randomFrom(44);
    for (let round = 0; round < 3 * rounds; round++) {
      const shape = Array.from({ length: Math.floor(random() * 4) }, () => pick(random, [1, 2, 3, 8]));
      const wider = [...(random() < 0.4 ? [2] : []), ...shape.map((dim) => (dim === 1 ? pick(random, [1, 4]) : dim))];
      await check({
        op: "Expand",
        inputs: [moved(random, shape), { view: of("int64", [wider.length], wider.map(BigInt)), as: "constant" }],
        relative: 0,
      });
      await check({
        op: "Tile",
        inputs: [
          moved(random, shape),
          {
            view: of(
              "int64",
              [shape.length],
              shape.map(() => BigInt(pick(random, [0, 1, 2, 3]))),
            ),
            as: "constant",
          },
        ],
        relative: 0,
      });
    }
  });

  test("Reshape and its kin show contiguous operands and copy those with gaps", async () => {
    const random = randomFrom(45);
    const list = (values: readonly number[]): Feed => ({
      view: of("int64", [values.length], values.map(BigInt)),
      as: "constant",
    });
    for (const as of ["fed", "gaps"] as const) {
      for (const type of types) {
        const x = (): Feed => ({ view: randomView(random, type, [2, 1, 6, 4]), as });
        await check({ op: "Reshape", inputs: [x(), list([3, -1])], relative: 0 });
        await check({ op: "Flatten", inputs: [x()], relative: 0 });
        await check({ op: "Squeeze", inputs: [x(), list([1])], relative: 0 });
        await check({ op: "Unsqueeze", inputs: [x(), list([0])], relative: 0 });
        await check({ op: "Identity", inputs: [x()], relative: 0 });
      }
    }
  });

  test("a call is judged anew when its operands lie differently", async () => {
    const random = randomFrom(46);
    const call: FastCall = {
      op: "Gather",
      inputs: [{ view: randomView(random, "float32", [5, 4]) }, { view: of("int64", [2], [1n, 3n]) }],
    };
    for (const variant of variants) {
      const executable = variant.session.prepare(planOf(call));
      const [table, indices] = call.inputs.map((feed) => feed!.view);
      const expected = (await runOn(prepareReference(planOf(call)), [table, indices])).values();
      const wanted = [...expected][0];
      const apart = withGaps(executable, table);
      for (const form of [table, apart, table, apart]) {
        const [actual] = (await runOn(executable, [form, indices])).values();
        expect(differenceOf(actual, wanted, 0)).toBe("");
      }
    }
  });

  test("what no kernel serves is not repeated by jobs for other operands", async () => {
    const random = randomFrom(47);
    const feeds = [randomView(random, "float32", [5, 4]), of("int64", [2], [1n, 3n])] as const;
    const plan = planOf({ op: "Gather", inputs: feeds.map((view) => ({ view })) });
    for (const variant of variants) {
      const executable = variant.session.prepare(plan);
      const whole = bufferOn(executable, "float32", [5, 4]);
      const others = withGaps(executable, randomView(random, "float32", [5, 4]));
      for (const form of [whole, others, others, others, whole]) {
        const [actual] = (await runOn(executable, [form, feeds[1]])).values();
        const oracle = prepareReference(plan);
        const [wanted] = (await runOn(oracle, [form, feeds[1]])).values();
        expect(differenceOf(actual, wanted, 0)).toBe("");
      }
    }
  });
});
