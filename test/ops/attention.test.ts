// Attention against a second implementation over random operands and options, and what must hold between its forms.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type CaseAttribute, caseAttributes, of } from "../../tools/cases/shared/case.js";
import { type Callable, callReference, evaluate, inferOutputs } from "../../src/graph/call.js";
import { readAttributes } from "../../src/graph/attribute.js";
import { shapeText, symbol } from "../../src/graph/dim.js";
import { type Fact, factOfView } from "../../src/graph/fact.js";
import { operators } from "../../src/ops/index.js";
import { readNumbers } from "../../src/tensor/access.js";
import { copyView } from "../../src/tensor/copy.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { View } from "../../src/tensor/view.js";
import { largestDifference } from "../support/compare.js";
import { attention, type Mask, type Operands, type Options } from "./attention-oracle.js";
import { soak } from "../support/soak.js";

const none = (): never => {
  throw new Error("no subgraphs here");
};

type Attrs = Readonly<Record<string, CaseAttribute>>;

function nodeOf(name: string, opset: number, attrs: Attrs, wanted: readonly boolean[]): Callable {
  const op = operators.find("", name, opset)!;
  return { op, label: name, opset, attrs: readAttributes(op.attrs, caseAttributes(attrs), name), wanted };
}

function call(
  name: string,
  opset: number,
  attrs: Attrs,
  inputs: readonly (View | undefined)[],
  wanted: readonly boolean[],
): (View | undefined)[] {
  return evaluate(
    nodeOf(name, opset, attrs, wanted),
    inputs,
    inputs.map((view) => view && factOfView(view)),
    none,
    none,
  );
}

/** [batch, heads, length, size] → [batch, length, heads · size] */
function pack(view: View): View {
  const [batch, heads, length, size] = view.shape;
  const packed = View.allocate(view.type, [batch, length, heads, size]);
  copyView(view.transpose([0, 2, 1, 3]), packed);
  return packed.reshape([batch, length, heads * size]);
}

const unpack = (view: View, heads: number): View => {
  const [batch, length, packed] = view.shape;
  return view.reshape([batch, length, heads, packed / heads]).transpose([0, 2, 1, 3]);
};

/** The same elements inside a larger buffer full of NaN: a cache inside its capacity. */
function inCapacity(view: View, spare: number): View {
  const [batch, heads, length, size] = view.shape;
  const whole = View.allocate(view.type, [batch, heads, length + spare, size]);
  if (view.type === "float32" || view.type === "float64") (whole.data as Float32Array).fill(NaN);
  const part = whole.slice(2, 0, length);
  copyView(view, part);
  return part;
}

interface Draw {
  readonly operands: Operands;
  readonly options: Options;
  readonly type: ElementType;
  readonly packed: boolean;
  readonly strided: boolean;
}

/** Integers of small range make a number list from a seed: shrinks well enough and prints short. */
function numbers(seed: number, count: number): number[] {
  let state = seed >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return ((state >>> 8) % 257) / 64 - 2;
  });
}

const drawn: fc.Arbitrary<Draw> = fc
  .record({
    opset: fc.constantFrom(23, 24, 25, 28),
    batch: fc.integer({ min: 1, max: 3 }),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    queries: fc.integer({ min: 1, max: 4 }),
    keys: fc.integer({ min: 1, max: 6 }),
    past: fc.integer({ min: 0, max: 4 }),
    size: fc.integer({ min: 1, max: 4 }),
    valueSize: fc.integer({ min: 1, max: 4 }),
    cache: fc.constantFrom("none", "inside", "outside"),
    maskRank: fc.integer({ min: 0, max: 4 }),
    maskSpread: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
    maskShort: fc.integer({ min: 0, max: 6 }),
    maskBoolean: fc.boolean(),
    causal: fc.boolean(),
    left: fc.integer({ min: -1, max: 3 }),
    right: fc.integer({ min: -1, max: 3 }),
    scale: fc.option(fc.constantFrom(0.5, 1, 0.125), { nil: undefined }),
    softcap: fc.constantFrom(0, 0, 0.5, 4),
    mode: fc.integer({ min: 0, max: 3 }),
    type: fc.constantFrom<ElementType>("float32", "float64"),
    packed: fc.boolean(),
    strided: fc.boolean(),
    seed: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
  })
  .map((d): Draw => {
    const inside = d.cache === "inside";
    const outside = d.cache === "outside" && d.opset >= 24;
    const past = inside ? d.past : 0;
    const total = past + d.keys;
    const heads = d.kvHeads * d.group;
    const nonpad = outside
      ? numbers(d.seed + 7, d.batch).map((x) => Math.floor(((x + 2) / 4.1) * (d.keys + 1)))
      : undefined;
    let mask: Mask | undefined;
    if (d.maskRank > 0) {
      const covered = d.opset >= 24 ? Math.max(1, total - d.maskShort, ...(nonpad ?? [])) : d.maskSpread[3] ? 1 : total;
      const full = [d.batch, heads, d.queries].map((dim, axis) => (d.maskSpread[axis] ? 1 : dim));
      const shape = [...full, covered].slice(4 - d.maskRank);
      const values = numbers(
        d.seed + 5,
        shape.reduce((a, b) => a * b, 1),
      );
      mask = {
        boolean: d.maskBoolean,
        shape,
        values: values.map((x) => (d.maskBoolean ? (x > -0.5 ? 1 : 0) : x < -1.5 ? -Infinity : x)),
      };
    }
    const count = (n: number, length: number, width: number): number => d.batch * n * length * width;
    const operands: Operands = {
      batch: d.batch,
      heads,
      kvHeads: d.kvHeads,
      queries: d.queries,
      keys: d.keys,
      past,
      size: d.size,
      valueSize: d.valueSize,
      q: numbers(d.seed, count(heads, d.queries, d.size)),
      k: numbers(d.seed + 1, count(d.kvHeads, d.keys, d.size)),
      v: numbers(d.seed + 2, count(d.kvHeads, d.keys, d.valueSize)),
      pastK: numbers(d.seed + 3, count(d.kvHeads, past, d.size)),
      pastV: numbers(d.seed + 4, count(d.kvHeads, past, d.valueSize)),
      mask,
      nonpad,
    };
    const windows = d.opset >= 25 ? { left: d.left, right: d.right } : { left: -1, right: -1 };
    const options: Options = {
      opset: d.opset,
      causal: d.causal,
      scale: d.scale,
      softcap: d.softcap,
      mode: d.mode,
      ...windows,
    };
    return { operands, options, type: d.type, packed: d.packed, strided: d.strided };
  });

function attributesOf({ operands, options, packed }: Draw): Attrs {
  return {
    is_causal: options.causal ? 1 : 0,
    qk_matmul_output_mode: options.mode,
    softcap: { float: options.softcap },
    ...(options.scale === undefined ? {} : { scale: { float: options.scale } }),
    ...(options.opset >= 25 ? { left_window_size: options.left, right_window_size: options.right } : {}),
    ...(packed ? { q_num_heads: operands.heads, kv_num_heads: operands.kvHeads } : {}),
  };
}

function inputsOf({ operands: o, type, packed, strided }: Draw): (View | undefined)[] {
  const layout = (view: View): View => (packed ? pack(view) : strided ? inCapacity(view, 3) : view);
  const past = (values: readonly number[], width: number): View => {
    const view = of(type, [o.batch, o.kvHeads, o.past, width], values);
    return strided ? inCapacity(view, 2) : view;
  };
  const inside = o.past > 0;
  return [
    packed
      ? pack(of(type, [o.batch, o.heads, o.queries, o.size], o.q))
      : of(type, [o.batch, o.heads, o.queries, o.size], o.q),
    layout(of(type, [o.batch, o.kvHeads, o.keys, o.size], o.k)),
    layout(of(type, [o.batch, o.kvHeads, o.keys, o.valueSize], o.v)),
    o.mask && of(o.mask.boolean ? "bool" : type, o.mask.shape, o.mask.values),
    inside ? past(o.pastK, o.size) : undefined,
    inside ? past(o.pastV, o.valueSize) : undefined,
    ...(o.nonpad === undefined ? [] : [of("int64", [o.batch], o.nonpad)]),
  ];
}

function expectClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number, what: string): void {
  expect(actual.length, what).toBe(expected.length);
  for (let i = 0; i < expected.length; i++)
    if (largestDifference([actual[i]], [expected[i]]) > tolerance)
      expect.fail(`${what}[${i}]: got ${actual[i]}, expected ${expected[i]}`);
}

const runs = soak ? 1500 : 400;

test("agrees with an implementation written the other way round", () => {
  fc.assert(
    fc.property(drawn, (draw) => {
      const { operands, options, type, packed } = draw;
      const presents = operands.nonpad === undefined;
      const [y, presentK, presentV, scores] = call("Attention", options.opset, attributesOf(draw), inputsOf(draw), [
        true,
        presents,
        presents,
        true,
      ]);
      const expected = attention(operands, options);
      const tolerance = type === "float64" ? 1e-12 : 1e-5;
      expectClose(readNumbers(packed ? unpack(y!, operands.heads) : y!), expected.y, tolerance, "Y");
      expectClose(readNumbers(scores!), expected.scores, tolerance, "qk_matmul_output");
      if (!presents) return;
      expectClose(readNumbers(presentK!), expected.presentK, 0, "present_key");
      expectClose(readNumbers(presentV!), expected.presentV, 0, "present_value");
    }),
    { numRuns: runs },
  );
});

test("prefill and decode through past and present equal one pass", () => {
  fc.assert(
    fc.property(drawn, fc.integer({ min: 0, max: 3 }), (draw, first) => {
      const { operands: o, options, type } = draw;
      const length = o.keys; // of the whole sequence, queries and keys alike
      const attrs = { ...attributesOf({ ...draw, packed: false }), is_causal: 1 };
      const q = of(type, [o.batch, o.heads, length, o.size], numbers(o.q.length, o.batch * o.heads * length * o.size));
      const k = of(type, [o.batch, o.kvHeads, length, o.size], o.k);
      const v = of(type, [o.batch, o.kvHeads, length, o.valueSize], o.v);
      const [whole] = call("Attention", options.opset, attrs, [q, k, v], [true]);
      let past: (View | undefined)[] = [undefined, undefined];
      const steps = [Math.min(first, length), ...Array.from({ length: Math.max(0, length - first) }, () => 1)];
      let start = 0;
      for (const step of steps) {
        const rows = (view: View): View => view.slice(2, start, start + step);
        const [y, ...present] = call(
          "Attention",
          options.opset,
          attrs,
          [rows(q), rows(k), rows(v), undefined, ...past],
          [true, true, true],
        );
        expectClose(readNumbers(y!), readNumbers(rows(whole!)), 0, `Y at ${start}`);
        past = present.map((view) => inCapacity(view!, 2));
        start += step;
      }
      expectClose(readNumbers(past[0]!), readNumbers(k), 0, "present_key");
      expectClose(readNumbers(past[1]!), readNumbers(v), 0, "present_value");
    }),
    { numRuns: runs / 5 },
  );
});

test("a cache written by TensorScatter and read by count equals past and present", () => {
  fc.assert(
    fc.property(drawn, fc.constantFrom<ElementType>("float32", "float16", "bfloat16"), (draw, type) => {
      const { operands: o } = draw;
      const opset = Math.max(24, draw.options.opset);
      const attrs = {
        ...attributesOf({ ...draw, options: { ...draw.options, opset, mode: 3 }, packed: false }),
        is_causal: 1,
      };
      const capacity = o.past + o.keys + 2;
      const view = (heads: number, length: number, width: number, values: readonly number[]): View =>
        of(type, [o.batch, heads, length, width], values);
      const q = view(o.heads, o.keys, o.size, numbers(o.q.length, o.batch * o.heads * o.keys * o.size));
      const [k, v] = [view(o.kvHeads, o.keys, o.size, o.k), view(o.kvHeads, o.keys, o.valueSize, o.v)];
      const [pastK, pastV] = [view(o.kvHeads, o.past, o.size, o.pastK), view(o.kvHeads, o.past, o.valueSize, o.pastV)];
      const garbage = (width: number): View =>
        view(o.kvHeads, capacity, width, new Array<number>(o.batch * o.kvHeads * capacity * width).fill(NaN));
      const write = (cache: View, rows: View, at: number): View =>
        call(
          "TensorScatter",
          opset,
          {},
          [cache, rows, of("int64", [o.batch], new Array<number>(o.batch).fill(at))],
          [true],
        )[0]!;
      const keys = write(write(garbage(o.size), pastK, 0), k, o.past);
      const values = write(write(garbage(o.valueSize), pastV, 0), v, o.past);
      const nonpad = of("int64", [o.batch], new Array<number>(o.batch).fill(o.past + o.keys));
      const outside = call(
        "Attention",
        opset,
        attrs,
        [q, keys, values, undefined, undefined, undefined, nonpad],
        [true],
      );
      const inside = call("Attention", opset, attrs, [q, k, v, undefined, pastK, pastV], [true]);
      expectClose(readNumbers(outside[0]!), readNumbers(inside[0]!), 0, "Y");
    }),
    { numRuns: runs / 5 },
  );
});

test("a present that shares the past's buffer is written behind it, and the past is not touched", () => {
  fc.assert(
    fc.property(drawn, (draw) => {
      const given = { ...draw, operands: { ...draw.operands, nonpad: undefined } };
      const { operands: o, options, type } = given;
      fc.pre(o.past > 0);
      const node = nodeOf("Attention", options.opset, attributesOf(given), [true, true, true]);
      const inputs = inputsOf(given);
      const expected = call("Attention", options.opset, attributesOf(given), inputs, [true, true, true]);
      const grown = [4, 5].map((at) => inCapacity(inputs[at]!, o.keys + 1));
      const shared = [...inputs.slice(0, 4), ...grown];
      const facts = inferOutputs(
        node,
        shared.map((view) => view && factOfView(view)),
        none,
      );
      const presents = grown.map(
        (past) => new View(type, past.shape.with(2, o.past + o.keys), past.data, past.offset, past.strides),
      );
      const outputs = [View.allocate(type, facts[0].shape as number[]), ...presents];
      callReference(node, shared, outputs, facts, none);
      outputs.forEach((view, at) => expectClose(readNumbers(view), readNumbers(expected[at]!), 0, `output ${at}`));
    }),
    { numRuns: runs / 5 },
  );
});

test("half floats stay within the stages' rounding of float64", () => {
  fc.assert(
    fc.property(drawn, fc.constantFrom<ElementType>("float16", "bfloat16"), (draw, type) => {
      const given = { ...draw, type, packed: false, strided: false, options: { ...draw.options, mode: 3 } };
      const [y] = call("Attention", given.options.opset, attributesOf(given), inputsOf(given), [true]);
      // Every number drawn is a multiple of 1/64 below 2, which both types hold or nearly hold.
      expectClose(readNumbers(y!), attention(given.operands, given.options).y, type === "float16" ? 0.02 : 0.15, "Y");
    }),
    { numRuns: runs / 5 },
  );
});

test("shapes with symbols: the present is the past and the new rows", () => {
  const [batch, seq, past] = [symbol("batch"), symbol("seq"), symbol("past")];
  const float = (...shape: Fact["shape"] & {}): Fact => ({ type: "float32", shape });
  const cache = float(batch, 2, past, 16);
  const shapes = (attrs: Attrs, inputs: readonly (Fact | undefined)[]): string[] =>
    inferOutputs(nodeOf("Attention", 25, attrs, [true, true, true, true]), inputs, none).map((fact) =>
      shapeText(fact.shape),
    );
  const four = [float(batch, 8, seq, 16), float(batch, 2, seq, 16), float(batch, 2, seq, 16), undefined, cache, cache];
  expect(shapes({}, four)).toEqual([
    "[batch,8,seq,16]",
    "[batch,2,past + seq,16]",
    "[batch,2,past + seq,16]",
    "[batch,8,seq,past + seq]",
  ]);
  const three = [float(batch, seq, 128), float(batch, seq, 32), float(batch, seq, 32), undefined, cache, cache];
  expect(shapes({ q_num_heads: 8, kv_num_heads: 2 }, three)).toEqual([
    "[batch,seq,128]",
    "[batch,2,past + seq,16]",
    "[batch,2,past + seq,16]",
    "[batch,8,seq,past + seq]",
  ]);
  const unknown: Fact = { type: "float32", shape: undefined };
  expect(shapes({}, [unknown, unknown, unknown, unknown])[0]).toBe("[?]");
  expect(() => shapes({}, [four[0], four[1], float(batch, 4, seq, 16)])).toThrow(/same number of heads, got 2 and 4/);
});
