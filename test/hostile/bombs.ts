/**
 * Small files that ask for much: one generator a shape of attack, each for any size. What a load may cost must follow the file's size;
 * bombs.test.ts measures it.
 */
import {
  buildModel,
  type AttributeInput,
  graph,
  initializer,
  type ModelParts,
  modelFunction,
  node as makeNode,
  strings,
  value,
} from "../../src/onnx/build.js";
import type { ModelFunction, ModelNode, ModelSparseTensor, ModelTensor } from "../../src/onnx/model.js";
import { writeModel } from "../../src/onnx/write.js";

/** A kind of hostile file. */
export interface Bomb {
  readonly name: string;
  /** Roughly the nodes, or names, or whatever the kind counts. */
  readonly size: number;
  readonly build: (size: number) => Uint8Array;
}

type Attributes = Readonly<Record<string, AttributeInput>>;

const node = (
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: Attributes = {},
): ModelNode => makeNode(op, inputs, outputs, attributes);
const local = (
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: Attributes = {},
): ModelNode => makeNode(op, inputs, outputs, attributes, { domain: "l" });
const list = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at));
const ints = (name: string, ...numbers: readonly number[]): ModelTensor =>
  initializer(name, "int64", BigInt64Array.from(numbers, BigInt), [numbers.length]);
const scalar = (name: string, number: number): ModelTensor => initializer(name, "int64", [BigInt(number)], []);
const floats = (name: string, dims: readonly number[]): ModelTensor =>
  initializer(name, "float32", new Float32Array(dims.reduce((a, b) => a * b, 1)).fill(1), dims);
const x = value("x", "float32", ["n", 8]);
const opset = { "": 24, l: 1, "com.microsoft": 1 };
const model = (parts: Partial<ModelParts>): Uint8Array =>
  writeModel(buildModel({ opset, inputs: [x], outputs: [value("y")], ...parts }));

/** x → op → op → … → y */
const chain = (
  count: number,
  step: (from: string, to: string, at: number) => readonly ModelNode[],
  parts: Partial<ModelParts> = {},
): Uint8Array =>
  model({
    nodes: [
      ...list(count, (at) => step(at === 0 ? "x" : `v${at}`, `v${at + 1}`, at)).flat(),
      node("Identity", [`v${count}`], ["y"]),
    ],
    ...parts,
  });

const unary =
  (op: string, attributes: Attributes = {}, parts: Partial<ModelParts> = {}) =>
  (count: number) =>
    chain(count, (from, to) => [node(op, [from], [to], attributes)], parts);

const fn = (name: string, nodes: readonly ModelNode[], more: Partial<ModelFunction> = {}): ModelFunction =>
  modelFunction({ domain: "l", name, inputs: ["a"], outputs: ["b"], opset, nodes, ...more });

/** Functions that each call the next `width` times: the last holds `inner`. */
const tree = (depth: number, width: number, inner: readonly ModelNode[], parts: Partial<ModelParts> = {}): Uint8Array =>
  model({
    nodes: [local("F0", ["x"], ["y"])],
    functions: list(depth, (level) =>
      fn(
        `F${level}`,
        level === depth - 1
          ? inner
          : list(width, (at) =>
              local(`F${level + 1}`, [at === 0 ? "a" : `m${at}`], [at === width - 1 ? "b" : `m${at + 1}`]),
            ),
      ),
    ),
    ...parts,
  });

/** x0 … x7 of unknown lengths, joined: a length that is a sum of eight symbols, in `s`. */
const sumOfSymbols = (
  count: number,
  after: (last: number) => readonly ModelNode[],
  initializers: readonly ModelTensor[] = [],
  symbols = 8,
): Uint8Array =>
  model({
    inputs: list(symbols, (at) => value(`x${at}`, "float32", [`d${at}`])),
    initializers: [...initializers],
    nodes: [
      node(
        "Concat",
        list(symbols, (at) => `x${at}`),
        ["c"],
        { axis: 0 },
      ),
      node("Shape", ["c"], ["s0"]),
      ...after(count),
    ],
  });

const scatter = (past: string, present: string): ModelNode =>
  node("TensorScatter", [past, "u", "w"], [present], { axis: 1 });
const cacheInputs = [
  value("x", "float32", ["b", "s", 8]),
  value("u", "float32", ["b", "t", 8]),
  value("w", "int64", ["b"]),
];

/** A written-out attention layer over a joined cache, as exporters make them. */
const layer = (at: number): ModelNode[] => [
  node("MatMul", [`h${at}`, "W"], [`q${at}`]),
  node("Reshape", [`q${at}`, "heads"], [`qh${at}`]),
  node("Transpose", [`qh${at}`], [`qt${at}`], { perm: [0, 2, 1, 3] }),
  node("Concat", [`past.${at}.key`, `qt${at}`], [`present.${at}.key`], { axis: 2 }),
  node("Concat", [`past.${at}.value`, `qt${at}`], [`present.${at}.value`], { axis: 2 }),
  node("Transpose", [`present.${at}.key`], [`kt${at}`], { perm: [0, 1, 3, 2] }),
  node("MatMul", [`qt${at}`, `kt${at}`], [`sc${at}`]),
  node("Mul", [`sc${at}`, "half"], [`sd${at}`]),
  node("Softmax", [`sd${at}`], [`p${at}`], { axis: -1 }),
  node("MatMul", [`p${at}`, `present.${at}.value`], [`o${at}`]),
  node("Transpose", [`o${at}`], [`ot${at}`], { perm: [0, 2, 1, 3] }),
  node("Reshape", [`ot${at}`, "flat"], [`of${at}`]),
  node("Add", [`h${at}`, `of${at}`], [`h${at + 1}`]),
];
const decoder = (layers: number): Uint8Array =>
  model({
    inputs: [
      value("h0", "float32", ["batch", "seq", 8]),
      ...list(layers, (at) =>
        ["key", "value"].map((kind) => value(`past.${at}.${kind}`, "float32", ["batch", 2, "past", 4])),
      ).flat(),
    ],
    outputs: [
      value(`h${layers}`, "float32"),
      ...list(layers, (at) => ["key", "value"].map((kind) => value(`present.${at}.${kind}`, "float32"))).flat(),
    ],
    initializers: [
      floats("W", [8, 8]),
      ints("heads", 0, 0, 2, 4),
      ints("flat", 0, 0, 8),
      initializer("half", "float32", [0.5], []),
    ],
    nodes: list(layers, layer).flat(),
  });

const nestedIf = (depth: number, width: number): ReturnType<typeof graph> =>
  graph({
    name: "g",
    outputs: [value(`o${depth}`)],
    nodes:
      depth === 0
        ? [node("Relu", ["x"], ["o0"])]
        : [
            ...list(width, (at) => node("Relu", ["x"], [`t${depth}.${at}`])),
            node("If", ["c"], [`o${depth}`], { then_branch: nestedIf(depth - 1, width), else_branch: nestedIf(0, 0) }),
          ],
  });

const loopBody = (depth: number, width: number): ReturnType<typeof graph> =>
  graph({
    name: `g${depth}`,
    inputs: [value(`i${depth}`, "int64", []), value(`c${depth}`, "bool", []), value(`a${depth}`, "float32")],
    outputs: [value(`d${depth}`), value(`b${depth}`)],
    nodes: [
      node("Identity", [`c${depth}`], [`d${depth}`]),
      ...(depth === 0
        ? [node("Relu", ["a0"], ["b0"])]
        : [
            ...list(width, (at) =>
              node(
                "Loop",
                ["trips", "", at === 0 ? `a${depth}` : `m${depth}.${at}`],
                [at === width - 1 ? `b${depth}` : `m${depth}.${at + 1}`],
                {
                  body: loopBody(depth - 1, width),
                },
              ),
            ),
          ]),
    ],
  });

const scanBody = (depth: number): ReturnType<typeof graph> =>
  graph({
    name: `g${depth}`,
    inputs: [value(`s${depth}`, "float32"), value(`e${depth}`, "float32")],
    outputs: [value(`t${depth}`), value(`f${depth}`)],
    nodes: [
      node("Identity", [`s${depth}`], [`t${depth}`]),
      depth === 0
        ? node("Relu", ["e0"], ["f0"])
        : node("Scan", [`s${depth}`, `e${depth}`], [`u${depth}`, `f${depth}`], {
            body: scanBody(depth - 1),
            num_scan_inputs: 1,
          }),
    ],
  });

/** Constants that cost: each node of the list works on constants alone. */
const constants =
  (initializers: readonly ModelTensor[], step: (at: number) => readonly ModelNode[]) =>
  (count: number): Uint8Array =>
    model({
      inputs: [x],
      initializers: [...initializers],
      nodes: [...list(count, step).flat(), node("Identity", ["x"], ["y"])],
      outputs: [value("y"), ...list(Math.min(count, 3), (at) => value(`k${at}`))],
    });

const sparse = (at: number, size: number): ModelSparseTensor => ({
  values: initializer(`sp${at}`, "float64", [1], [1]),
  indices: ints("", 0),
  dims: [size],
});

const long = (length: number, seed = ""): string => seed + "n".repeat(Math.max(0, length - seed.length));

/** Every kind there is. */
export const bombs: readonly Bomb[] = [
  // Symbols
  {
    name: "symbols: products",
    size: 4,
    build: (n) =>
      sumOfSymbols(n, (last) => [
        ...list(last, (at) => node("Mul", [`s${at}`, `s${at}`], [`s${at + 1}`])),
        node("ConstantOfShape", [`s${last}`], ["y"]),
      ]),
  },
  {
    name: "symbols: products, long",
    size: 10_000,
    build: (n) =>
      sumOfSymbols(n, (last) => [
        ...list(last, (at) => node("Mul", [`s${at}`, `s${at}`], [`s${at + 1}`])),
        node("ConstantOfShape", [`s${last}`], ["y"]),
      ]),
  },
  {
    name: "symbols: sums doubled",
    size: 10_000,
    build: (n) =>
      sumOfSymbols(n, (last) => [
        ...list(last, (at) => node("Add", [`s${at}`, `s${at}`], [`s${at + 1}`])),
        node("ConstantOfShape", [`s${last}`], ["y"]),
      ]),
  },
  {
    name: "symbols: maxima that double",
    size: 10_000,
    build: (n) =>
      sumOfSymbols(
        n,
        (last) => [
          ...list(last, (at) => [
            node("Add", [`s${at}`, "one"], [`t${at}`]),
            node("Div", [`t${at}`, `s${at}`], [`s${at + 1}`]),
          ]).flat(),
          node("ConstantOfShape", [`s${last}`], ["y"]),
        ],
        [ints("one", 1)],
      ),
  },
  {
    name: "symbols: remainders",
    size: 10_000,
    build: (n) =>
      sumOfSymbols(
        n,
        (last) => [
          ...list(last, (at) => [
            node("Add", [`s${at}`, "one"], [`t${at}`]),
            node("Mod", [`t${at}`, `s${at}`], [`s${at + 1}`]),
          ]).flat(),
          node("ConstantOfShape", [`s${last}`], ["y"]),
        ],
        [ints("one", 1)],
      ),
  },
  {
    name: "symbols: slices of slices",
    size: 10_000,
    build: (n) =>
      chain(
        n,
        (from, to, at) => [
          node("Shape", [from], [`h${at}`], { start: 0, end: 1 }),
          node("Div", [`h${at}`, "three"], [`q${at}`]),
          node("Slice", [from, "zero", `q${at}`], [to]),
        ],
        { initializers: [ints("zero", 0), ints("three", 3)] },
      ),
  },
  {
    name: "symbols: many inputs joined",
    size: 5_000,
    build: (n) =>
      model({
        inputs: list(n, (at) => value(`x${at}`, "float32", [`d${at}`])),
        nodes: [
          node(
            "Concat",
            list(n, (at) => `x${at}`),
            ["y"],
            { axis: 0 },
          ),
        ],
      }),
  },
  {
    name: "written attention: a chain of sums before a Softmax",
    size: 40_000,
    build: (n) =>
      chain(
        n,
        (from, to, at) =>
          at < n - 1
            ? [node("Add", [from, "x"], [to])]
            : [node("Softmax", [from], ["p"]), node("MatMul", ["p", "w"], [to])],
        { initializers: [floats("w", [8, 8])] },
      ),
  },
  {
    name: "written attention: a Softmax behind each of many sums",
    size: 10_000,
    build: (n) =>
      chain(
        n,
        (from, to, at) => [
          node("Add", [from, "x"], [to]),
          node("Softmax", [to], [`p${at}`]),
          node("MatMul", [`p${at}`, "w"], [`o${at}`]),
        ],
        {
          initializers: [floats("w", [8, 8])],
          outputs: [value("y"), ...list(n, (at) => value(`o${at}`))],
        },
      ),
  },
  {
    name: "symbols: one join after another",
    size: 5_000,
    build: (n) =>
      chain(n, (from, to, at) => [node("Concat", [from, `x${at}`], [to], { axis: 0 })], {
        inputs: [x, ...list(n, (at) => value(`x${at}`, "float32", [`d${at}`, 8]))],
      }),
  },
  {
    name: "symbols: a long name joined",
    size: 2_000,
    build: (n) =>
      chain(n, (from, to) => [node("Concat", [from, from], [to], { axis: 0 })], {
        inputs: [value("x", "float32", [long(n * 20), 8])],
      }),
  },
  {
    name: "symbols: a long name in products",
    size: 2_000,
    build: (n) =>
      chain(
        n,
        (from, to, at) => [
          node("Shape", [from], [`h${at}`]),
          node("Mul", [`h${at}`, "two"], [`g${at}`]),
          node("Expand", [from, `g${at}`], [to]),
        ],
        { inputs: [value("x", "float32", [long(n * 20), 8])], initializers: [ints("two", 2, 1)] },
      ),
  },
  {
    name: "symbols: flattened shapes of 64",
    size: 5_000,
    build: (n) =>
      chain(
        n,
        (from, to, at) => [
          node("Reshape", [from, "flat"], [`f${at}`]),
          node("Shape", ["x"], [`h${at}`]),
          node("Reshape", [`f${at}`, `h${at}`], [to]),
        ],
        {
          inputs: [
            value(
              "x",
              "float32",
              list(64, (at) => `d${at}`),
            ),
          ],
          initializers: [ints("flat", -1)],
        },
      ),
  },
  {
    name: "symbols: shapes of 64 padded",
    size: 5_000,
    build: (n) =>
      chain(n, (from, to) => [node("Pad", [from, "pads"], [to])], {
        inputs: [
          value(
            "x",
            "float32",
            list(64, (at) => `d${at}`),
          ),
        ],
        initializers: [ints("pads", ...list(128, () => 1))],
      }),
  },
  {
    name: "symbols: shapes of 64 tiled",
    size: 5_000,
    build: (n) =>
      chain(n, (from, to, at) => [node("Shape", [from], [`h${at}`]), node("Tile", [from, `h${at}`], [to])], {
        inputs: [
          value(
            "x",
            "float32",
            list(64, (at) => `d${at}`),
          ),
        ],
      }),
  },
  {
    name: "symbols: contents that double",
    size: 5_000,
    build: (n) =>
      sumOfSymbols(n, (last) => [
        ...list(last, (at) => node("Concat", [`s${at}`, `s${at}`], [`s${at + 1}`], { axis: 0 })),
        node("Identity", [`s${last}`], ["y"]),
      ]),
  },
  {
    name: "symbols: long contents worked on",
    size: 5_000,
    build: (n) =>
      sumOfSymbols(n, (last) => [
        node(
          "Concat",
          list(2000, () => "s0"),
          ["s1"],
          { axis: 0 },
        ),
        ...list(last, (at) => node("Add", [`s${at + 1}`, `s1`], [`s${at + 2}`])),
        node("Identity", [`s${last + 1}`], ["y"]),
      ]),
  },
  {
    name: "symbols: reshaped by sums",
    size: 5_000,
    build: (n) =>
      sumOfSymbols(
        n,
        (last) => [
          ...list(last, (at) => [
            node("Mul", ["s0", "s0"], [`m${at}`]),
            node("Concat", ["s0", "minus", `s0`], [`t${at}`], { axis: 0 }),
            node("Expand", ["c", `t${at}`], [`e${at}`]),
            node("Reshape", [`e${at}`, `t${at}`], [`r${at}`]),
          ]).flat(),
          node("Identity", [`r${last - 1}`], ["y"]),
        ],
        [ints("minus", 1)],
      ),
  },
  {
    name: "symbols: unknown everything",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to) => [node("NonZero", [from], [`${to}.z`]), node("Cast", [`${to}.z`], [to], { to: 1 })]),
  },

  // Chains of one kind of node
  ...["Relu", "Identity", "Neg", "Softmax", "Shape", "Size", "Cos", "Not", "Transpose"].map((op): Bomb => ({
    name: `chain: ${op}`,
    size: 20_000,
    build:
      op === "Shape" || op === "Size"
        ? (n) => chain(n, (from, to, at) => [node(op, ["x"], [`k${at}`]), node("Relu", [from], [to])])
        : op === "Not"
          ? unary(op, {}, { inputs: [value("x", "bool", ["n", 8])] })
          : unary(op),
  })),
  {
    name: "chain: Cast back and forth",
    size: 20_000,
    build: (n) => chain(n, (from, to, at) => [node("Cast", [from], [to], { to: at % 2 === 0 ? 11 : 1 })]),
  },
  { name: "chain: Add", size: 20_000, build: (n) => chain(n, (from, to) => [node("Add", [from, "x"], [to])]) },
  {
    name: "chain: Add of itself",
    size: 20_000,
    build: (n) => chain(n, (from, to) => [node("Add", [from, from], [to])]),
  },
  {
    name: "chain: Mul by a constant",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to) => [node("Mul", [from, "k"], [to])], {
        initializers: [initializer("k", "float32", [2], [])],
      }),
  },
  {
    name: "chain: MatMul",
    size: 20_000,
    build: (n) => chain(n, (from, to) => [node("MatMul", [from, "k"], [to])], { initializers: [floats("k", [8, 8])] }),
  },
  {
    name: "chain: MatMul and Add",
    size: 10_000,
    build: (n) =>
      chain(n, (from, to) => [node("MatMul", [from, "k"], [`${to}m`]), node("Add", [`${to}m`, "b"], [to])], {
        initializers: [floats("k", [8, 8]), floats("b", [8])],
      }),
  },
  {
    name: "chain: Sigmoid and Mul",
    size: 10_000,
    build: (n) => chain(n, (from, to) => [node("Sigmoid", [from], [`${to}s`]), node("Mul", [from, `${to}s`], [to])]),
  },
  {
    name: "chain: Erf Gelu",
    size: 4_000,
    build: (n) =>
      chain(
        n,
        (from, to) => [
          node("Div", [from, "r2"], [`${to}a`]),
          node("Erf", [`${to}a`], [`${to}b`]),
          node("Add", [`${to}b`, "one"], [`${to}c`]),
          node("Mul", [from, `${to}c`], [`${to}d`]),
          node("Mul", [`${to}d`, "half"], [to]),
        ],
        {
          initializers: [
            initializer("r2", "float32", [Math.SQRT2], []),
            initializer("one", "float32", [1], []),
            initializer("half", "float32", [0.5], []),
          ],
        },
      ),
  },
  {
    name: "chain: products in any order",
    size: 20_000,
    build: (n) => chain(n, (from, to) => [node("Mul", [from, from], [to])]),
  },
  {
    name: "chain: sums and roots",
    size: 4_000,
    build: (n) =>
      chain(
        n,
        (from, to) => [
          node("ReduceMean", [from, "last"], [`${to}m`]),
          node("Sub", [from, `${to}m`], [`${to}d`]),
          node("Mul", [`${to}d`, `${to}d`], [`${to}q`]),
          node("ReduceMean", [`${to}q`, "last"], [`${to}v`]),
          node("Add", [`${to}v`, "eps"], [`${to}e`]),
          node("Sqrt", [`${to}e`], [`${to}r`]),
          node("Div", [`${to}d`, `${to}r`], [to]),
        ],
        { initializers: [ints("last", -1), initializer("eps", "float32", [1e-5], [])] },
      ),
  },
  {
    name: "chain: Clip, Where, Equal",
    size: 7_000,
    build: (n) =>
      chain(n, (from, to) => [node("Equal", [from, "x"], [`${to}c`]), node("Where", [`${to}c`, from, "x"], [to])]),
  },
  {
    name: "chain: Split and Concat",
    size: 8_000,
    build: (n) =>
      chain(n, (from, to) => [
        node("Split", [from], [`${to}a`, `${to}b`], { axis: 1, num_outputs: 2 }),
        node("Concat", [`${to}b`, `${to}a`], [to], { axis: 1 }),
      ]),
  },
  {
    name: "chain: Gather",
    size: 20_000,
    build: (n) => chain(n, (from, to) => [node("Gather", [from, "i"], [to])], { initializers: [ints("i", 0, 0)] }),
  },
  {
    name: "chain: Cos of Cast of Mul into Rotary",
    size: 5_000,
    build: (n) => chain(n, (from, to, at) => [node(at % 2 === 0 ? "Cos" : "Sin", [from], [to])], {}),
  },

  // Views
  {
    name: "views: Reshape",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to, at) => [node("Reshape", [from, at % 2 === 0 ? "a" : "b"], [to])], {
        initializers: [ints("a", -1, 2, 4), ints("b", -1, 4, 2)],
      }),
  },
  {
    name: "views: Reshape to many shapes",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to, at) => [node("Reshape", [from, `s${at % 97}`], [to])], {
        inputs: [value("x", "float32", [2 ** 40])],
        initializers: list(97, (at) => ints(`s${at}`, -1, ...list(at % 11, () => 2), 2 ** (1 + (at % 20)))),
      }),
  },
  {
    name: "views: Reshape before a scatter",
    size: 20_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        initializers: [ints("a", 0, 0, 2, 4), ints("b", 0, 0, 8)],
        nodes: [
          ...list(n, (at) => node("Reshape", [at === 0 ? "x" : `v${at}`, at % 2 === 0 ? "a" : "b"], [`v${at + 1}`])),
          scatter(`v${n}`, "y"),
        ],
      }),
  },
  {
    name: "views: Reshape of one value",
    size: 20_000,
    build: (n) =>
      model({
        initializers: [ints("a", -1, 2, 4)],
        nodes: [
          ...list(n, (at) => node("Reshape", ["x", "a"], [`v${at}`])),
          ...list(n, (at) => node("ReduceMax", [`v${at}`], [`m${at}`], { keepdims: 0 })),
          node(
            "Sum",
            list(n, (at) => `m${at}`),
            ["y"],
          ),
        ],
      }),
  },
  {
    name: "views: Unsqueeze and Squeeze",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to, at) => [node(at % 2 === 0 ? "Unsqueeze" : "Squeeze", [from, "a"], [to])], {
        initializers: [ints("a", 0)],
      }),
  },
  {
    name: "views: Unsqueeze without end",
    size: 5_000,
    build: (n) => chain(n, (from, to) => [node("Unsqueeze", [from, "a"], [to])], { initializers: [ints("a", 0)] }),
  },
  { name: "views: Flatten", size: 20_000, build: unary("Flatten") },
  {
    name: "views: each read twice",
    size: 10_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        initializers: [ints("a", 0, 0, 2, 4), ints("b", 0, 0, 8)],
        outputs: [value("y"), value("z")],
        nodes: [
          ...list(n, (at) => [
            node("Reshape", [at === 0 ? "x" : `v${at}`, at % 2 === 0 ? "a" : "b"], [`v${at + 1}`]),
            node("ReduceMax", [`v${at + 1}`], [`m${at}`], { keepdims: 0 }),
          ]).flat(),
          node(
            "Sum",
            list(n, (at) => `m${at}`),
            ["z"],
          ),
          scatter(n % 2 === 0 ? `v${n}` : `v${n - 1}`, "y"),
        ],
      }),
  },

  // Updates
  {
    name: "updates: a row of scatters",
    size: 10_000,
    build: (n) => chain(n, (from, to) => [scatter(from, to)], { inputs: cacheInputs }),
  },
  {
    name: "updates: each read",
    size: 5_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        outputs: [value("y"), value("z")],
        nodes: [
          ...list(n, (at) => [
            scatter(at === 0 ? "x" : `v${at}`, `v${at + 1}`),
            node("ReduceMax", [`v${at + 1}`], [`m${at}`], { keepdims: 0 }),
          ]).flat(),
          node(
            "Sum",
            list(n, (at) => `m${at}`),
            ["z"],
          ),
          node("Identity", [`v${n}`], ["y"]),
        ],
      }),
  },
  {
    name: "updates: each an output",
    size: 5_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        outputs: list(n, (at) => value(`v${at + 1}`)),
        nodes: list(n, (at) => scatter(at === 0 ? "x" : `v${at}`, `v${at + 1}`)),
      }),
  },
  {
    name: "updates: of one value",
    size: 5_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        outputs: list(n, (at) => value(`v${at}`)),
        nodes: list(n, (at) => scatter("x", `v${at}`)),
      }),
  },
  {
    name: "updates: many caches",
    size: 5_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(n, (at) => value(`p${at}`, "float32", ["b", "s", 8]))],
        outputs: list(n, (at) => value(`v${at}`)),
        nodes: list(n, (at) => scatter(`p${at}`, `v${at}`)),
      }),
  },
  {
    name: "updates: many caches that all meet",
    size: 5_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(n, (at) => value(`p${at}`, "float32", ["b", "s", 8]))],
        outputs: [...list(n, (at) => value(`v${at}`)), value("z")],
        nodes: [
          ...list(n, (at) => scatter(`p${at}`, `v${at}`)),
          node(
            "Sum",
            list(n, (at) => `v${at}`),
            ["z"],
          ),
        ],
      }),
  },
  {
    name: "updates: many caches with symbols of their own",
    size: 5_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(n, (at) => value(`p${at}`, "float32", [`b${at}`, `s${at}`, 8]))],
        outputs: list(n, (at) => value(`v${at}`)),
        nodes: list(n, (at) => scatter(`p${at}`, `v${at}`)),
      }),
  },
  {
    name: "updates: read late by many",
    size: 5_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        outputs: [value("y"), value("z")],
        nodes: [
          scatter("x", "y"),
          ...list(n, (at) => node("ReduceMax", [at === 0 ? "y" : "x"], [`m${at}`], { keepdims: 0 })),
          node(
            "Sum",
            list(n, (at) => `m${at}`),
            ["z"],
          ),
        ],
      }),
  },
  {
    name: "updates: through views",
    size: 5_000,
    build: (n) =>
      chain(
        n,
        (from, to) => [
          node("Reshape", [from, "a"], [`${to}r`]),
          node("Reshape", [`${to}r`, "b"], [`${to}q`]),
          scatter(`${to}q`, to),
        ],
        { inputs: cacheInputs, initializers: [ints("a", 0, 0, 2, 4), ints("b", 0, 0, 8)] },
      ),
  },
  {
    name: "updates: ScatterND",
    size: 10_000,
    build: (n) =>
      chain(n, (from, to) => [node("ScatterND", [from, "i", "row"], [to])], {
        initializers: [initializer("i", "int64", [0n], [1, 1]), floats("row", [1, 8])],
      }),
  },
  {
    name: "updates: joined one after another",
    size: 5_000,
    build: (n) =>
      model({
        inputs: cacheInputs,
        outputs: list(n, (at) => value(`v${at + 1}`)),
        nodes: list(n, (at) => node("Concat", [at === 0 ? "x" : `v${at}`, "u"], [`v${at + 1}`], { axis: 1 })),
      }),
  },
  {
    name: "updates: crossed order",
    size: 3_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(n, (at) => value(`p${at}`, "float32", ["b", "s", 8]))],
        outputs: [...list(n, (at) => value(`v${at}`)), value("z")],
        nodes: [
          ...list(n, (at) => scatter(`p${at}`, `v${at}`)),
          ...list(n, (at) => node("ReduceMax", [`p${n - 1 - at}`], [`m${at}`], { keepdims: 0 })),
          node(
            "Sum",
            list(n, (at) => `m${at}`),
            ["z"],
          ),
        ],
      }),
  },

  // Wide
  {
    name: "wide: Concat of one value",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [
          node(
            "Concat",
            list(n, () => "x"),
            ["y"],
            { axis: 1 },
          ),
        ],
      }),
  },
  {
    name: "wide: Sum of many",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [
          ...list(n, (at) => node("Relu", ["x"], [`v${at}`])),
          node(
            "Sum",
            list(n, (at) => `v${at}`),
            ["y"],
          ),
        ],
      }),
  },
  ...["Concat", "Sum", "Max", "Mean"].map((op): Bomb => ({
    name: `wide: ${op} of very many`,
    size: 200_000,
    build: (n) =>
      model({
        nodes: [
          node(
            op,
            list(n, () => "x"),
            ["y"],
            op === "Concat" ? { axis: 1 } : {},
          ),
        ],
      }),
  })),
  {
    name: "wide: Split into very many",
    size: 100_000,
    build: (n) =>
      model({
        inputs: [value("x", "float32", ["n", n])],
        nodes: [
          node(
            "Split",
            ["x"],
            list(n, (at) => `${at}`),
            { axis: 1, num_outputs: n },
          ),
        ],
        outputs: [value("0")],
      }),
  },
  {
    name: "wide: Sum of one, again and again",
    size: 200,
    build: (n) =>
      chain(n, (from, to) => [
        node(
          "Sum",
          list(n, () => from),
          [to],
        ),
      ]),
  },
  {
    name: "wide: Split into many",
    size: 20_000,
    build: (n) =>
      model({
        inputs: [value("x", "float32", ["n", n])],
        nodes: [
          node(
            "Split",
            ["x"],
            list(n, (at) => `v${at}`),
            { axis: 1, num_outputs: n },
          ),
          node(
            "Concat",
            list(n, (at) => `v${at}`),
            ["y"],
            { axis: 1 },
          ),
        ],
      }),
  },
  {
    name: "wide: every value an output",
    size: 20_000,
    build: (n) =>
      model({ nodes: list(n, (at) => node("Relu", ["x"], [`v${at}`])), outputs: list(n, (at) => value(`v${at}`)) }),
  },
  {
    name: "wide: many inputs",
    size: 20_000,
    build: (n) =>
      model({
        inputs: [x, ...list(n, (at) => value(`x${at}`, "float32", ["n"]))],
        nodes: [node("Relu", ["x"], ["y"])],
      }),
  },
  {
    name: "wide: many small integer inputs that decide shapes",
    size: 2_000,
    build: (n) =>
      model({
        inputs: [x, ...list(n, (at) => value(`x${at}`, "int64", [1]))],
        outputs: list(n, (at) => value(`v${at}`)),
        nodes: list(n, (at) => node("ConstantOfShape", [`x${at}`], [`v${at}`])),
      }),
  },
  {
    name: "wide: many initializers",
    size: 20_000,
    build: (n) =>
      model({
        initializers: list(n, (at) => floats(`w${at}`, [1])),
        nodes: [node("Sum", ["x", ...list(n, (at) => `w${at}`)], ["y"])],
      }),
  },
  {
    name: "wide: value_info for everything",
    size: 20_000,
    build: (n) =>
      chain(n, (from, to) => [node("Relu", [from], [to])], {
        valueInfo: list(n, (at) => value(`v${at}`, "float32", [`a${at}`, 8])),
      }),
  },
  {
    name: "wide: value_info for nothing",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [node("Relu", ["x"], ["y"])],
        valueInfo: list(n, (at) => value(`q${at}`, "float32", [`a${at}`, 8])),
      }),
  },
  {
    name: "wide: metadata",
    size: 20_000,
    build: (n) => model({ nodes: [node("Relu", ["x"], ["y"])], metadata: new Map(list(n, (at) => [`k${at}`, "v"])) }),
  },
  {
    name: "wide: opset imports",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [node("Relu", ["x"], ["y"])],
        opset: { "": 24, ...Object.fromEntries(list(n, (at) => [`d${at}`, 1])) },
      }),
  },
  {
    name: "wide: functions that nobody calls",
    size: 10_000,
    build: (n) =>
      model({
        nodes: [node("Relu", ["x"], ["y"])],
        functions: list(n, (at) => fn(`F${at}`, [node("Relu", ["a"], ["b"])])),
      }),
  },
  {
    name: "wide: an attribute of many integers",
    size: 200_000,
    build: (n) => model({ nodes: [node("Transpose", ["x"], ["y"], { perm: list(n, () => 1) })] }),
  },
  {
    name: "wide: constants of many integers",
    size: 200_000,
    build: (n) =>
      model({
        nodes: [node("Constant", [], ["k"], { value_ints: list(n, () => 1) }), node("Reshape", ["x", "k"], ["y"])],
      }),
  },
  {
    name: "wide: constants of many strings",
    size: 100_000,
    build: (n) =>
      model({
        outputs: [value("y"), value("k")],
        nodes: [
          node("Constant", [], ["k"], { value_strings: strings(list(n, () => "a")) }),
          node("Relu", ["x"], ["y"]),
        ],
      }),
  },
  {
    name: "wide: Einsum of many",
    size: 50,
    build: (n) =>
      model({
        inputs: [value("x", "float32", ["n"])],
        nodes: [
          node(
            "Einsum",
            list(n, () => "x"),
            ["y"],
            { equation: `${list(n, (at) => String.fromCharCode(97 + (at % 26))).join(",")}->a` },
          ),
        ],
      }),
  },
  {
    name: "wide: equal nodes",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [
          ...list(n, () => 0).map((_, at) => node("Cos", ["x"], [`v${at}`])),
          node(
            "Sum",
            list(n, (at) => `v${at}`),
            ["y"],
          ),
        ],
      }),
  },
  {
    name: "wide: dead nodes",
    size: 20_000,
    build: (n) =>
      model({
        nodes: [
          ...list(n, (at) => node("Cos", [at === 0 ? "x" : `v${at}`], [`v${at + 1}`])),
          node("Relu", ["x"], ["y"]),
        ],
      }),
  },

  // Names
  {
    name: "names: one long one",
    size: 1_000_000,
    build: (n) => model({ nodes: [node("Relu", ["x"], [long(n)]), node("Relu", [long(n)], ["y"])] }),
  },
  {
    name: "names: many long ones",
    size: 500,
    build: (n) =>
      chain(n, (from, to) => [node("Relu", [from === "x" ? from : from + long(n)], [to + long(n)])], {
        nodes: [
          ...list(n, (at) => node("Relu", [at === 0 ? "x" : long(n, `v${at}.`)], [long(n, `v${at + 1}.`)])),
          node("Relu", [long(n, `v${n}.`)], ["y"]),
        ],
      }),
  },
  {
    name: "names: one digit apart",
    size: 5_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(n, (at) => value(`p.${at}`, "float32", ["b", "s", 8]))],
        outputs: list(n, (at) => value(`v.${at}`)),
        nodes: list(n, (at) => scatter(`p.${at}`, `v.${at}`)),
      }),
  },
  {
    name: "names: of digits",
    size: 200_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, ...list(10, (at) => value(`${"1.".repeat(n / 20)}${at}`, "float32", ["b", "s", 8]))],
        outputs: list(10, (at) => value(`v.${at}`)),
        nodes: list(10, (at) => scatter(`${"1.".repeat(n / 20)}${at}`, `v.${at}`)),
      }),
  },
  {
    name: "names: like those that are made",
    size: 10_000,
    build: (n) =>
      chain(n, (from, to) => [node("Sigmoid", [from], [`${to}s`]), node("Mul", [from, `${to}s`], [to])], {
        initializers: list(n, (at) => floats(at === 0 ? "integers" : `integers_${at + 1}`, [1])),
      }),
  },

  // Functions
  { name: "functions: two to the twelfth", size: 12, build: (n) => tree(n, 2, [node("Relu", ["a"], ["b"])]) },
  { name: "functions: two to the fortieth", size: 40, build: (n) => tree(n, 2, [node("Relu", ["a"], ["b"])]) },
  {
    name: "functions: long names",
    size: 20_000,
    build: (n) => tree(8, 6, [node("Relu", ["a"], [long(n)]), node("Relu", [long(n)], ["b"])]),
  },
  {
    name: "functions: long names of calls",
    size: 1_000,
    build: (n) =>
      model({
        nodes: [makeNode("F0", ["x"], ["y"], {}, { domain: "l", name: long(n) })],
        functions: list(20, (level) =>
          fn(
            `F${level}`,
            level === 19
              ? [node("Relu", ["a"], ["b"])]
              : [
                  makeNode(`F${level + 1}`, ["a"], ["m"], {}, { domain: "l", name: long(n, "p") }),
                  makeNode(`F${level + 1}`, ["m"], ["b"], {}, { domain: "l", name: long(n, "q") }),
                ],
          ),
        ),
      }),
  },
  {
    name: "functions: large attributes",
    size: 10_000,
    build: (n) =>
      tree(3, 60, [node("Constant", [], ["k"], { value_ints: list(n, () => 1) }), node("Relu", ["a"], ["b"])]),
  },
  {
    name: "functions: wide nodes",
    size: 2_000,
    build: (n) =>
      tree(3, 60, [
        node(
          "Sum",
          list(n, () => "a"),
          ["b"],
        ),
      ]),
  },
  {
    name: "functions: constants",
    size: 100,
    build: (n) =>
      model({
        initializers: [ints("s", 65_000)],
        nodes: [local("F2", ["x"], ["y"])],
        functions: [
          fn("F1", [
            node("Constant", [], ["s"], { value_ints: [65_000] }),
            ...list(n, (at) =>
              node("ConstantOfShape", ["s"], [`c${at}`], { value: initializer("", "float64", [1], [1]) }),
            ),
            ...list(n, (at) => node("ReduceMax", [`c${at}`], [`m${at}`], { keepdims: 0 })),
            node("Cast", ["m0"], ["mc"], { to: 1 }),
            node("Sum", ["a", "mc"], ["b"]),
          ]),
          fn(
            "F2",
            list(n, (at) => local("F1", [at === 0 ? "a" : `m${at}`], [at === n - 1 ? "b" : `m${at + 1}`])),
          ),
        ],
      }),
  },
  {
    name: "functions: bodies in bodies",
    size: 5,
    build: (n) =>
      tree(n, 5, [
        node("Cast", ["a"], ["c"], { to: 9 }),
        node("ReduceMax", ["a"], ["m"], { keepdims: 0 }),
        node("Cast", ["m"], ["t"], { to: 9 }),
        node("If", ["t"], ["b"], {
          then_branch: graph({ outputs: [value("q")], nodes: [node("Relu", ["a"], ["q"])] }),
          else_branch: graph({ outputs: [value("r")], nodes: [node("Neg", ["a"], ["r"])] }),
        }),
      ]),
  },
  {
    name: "functions: calls inside bodies",
    size: 8,
    build: (n) =>
      model({
        inputs: [x, value("c", "bool", [])],
        nodes: [local("F0", ["x", "c"], ["y"])],
        functions: list(n, (level) =>
          fn(
            `F${level}`,
            level === n - 1
              ? [node("Relu", ["a"], ["b"])]
              : [
                  node("If", ["c"], ["b"], {
                    then_branch: graph({ outputs: [value("q")], nodes: [local(`F${level + 1}`, ["a", "c"], ["q"])] }),
                    else_branch: graph({ outputs: [value("r")], nodes: [local(`F${level + 1}`, ["a", "c"], ["r"])] }),
                  }),
                ],
            { inputs: ["a", "c"] },
          ),
        ),
      }),
  },
  {
    name: "functions: many calls of one",
    size: 10_000,
    build: (n) =>
      chain(n, (from, to) => [local("F", [from], [to])], {
        functions: [fn("F", [node("Neg", ["a"], ["m"]), node("Relu", ["m"], ["b"])])],
      }),
  },

  // Bodies
  {
    name: "bodies: If in If",
    size: 60,
    build: (n) =>
      model({
        inputs: [x, value("c", "bool", [])],
        nodes: [node("If", ["c"], ["y"], { then_branch: nestedIf(Math.min(n, 60), 2), else_branch: nestedIf(0, 0) })],
      }),
  },
  {
    name: "bodies: wide If in If",
    size: 300,
    build: (n) =>
      model({
        inputs: [x, value("c", "bool", [])],
        nodes: [node("If", ["c"], ["y"], { then_branch: nestedIf(50, n), else_branch: nestedIf(0, 0) })],
      }),
  },
  {
    name: "bodies: Loop in Loop",
    size: 60,
    build: (n) =>
      model({
        initializers: [scalar("trips", 3)],
        nodes: [node("Loop", ["trips", "", "x"], ["y"], { body: loopBody(Math.min(n, 60), 1) })],
      }),
  },
  {
    name: "bodies: Loops in Loops",
    size: 6,
    build: (n) =>
      model({
        initializers: [scalar("trips", 3)],
        nodes: [node("Loop", ["trips", "", "x"], ["y"], { body: loopBody(n, 3) })],
      }),
  },
  {
    name: "bodies: Scan in Scan",
    size: 60,
    build: (n) =>
      model({
        inputs: [value("x", "float32"), value("s", "float32")],
        nodes: [node("Scan", ["s", "x"], ["z", "y"], { body: scanBody(Math.min(n, 60)), num_scan_inputs: 1 })],
      }),
  },
  {
    name: "bodies: a Loop without end over constants",
    size: 1,
    build: () =>
      model({
        outputs: [value("y"), value("z")],
        initializers: [scalar("trips", 2 ** 50), floats("k", [2])],
        nodes: [node("Relu", ["x"], ["y"]), node("Loop", ["trips", "", "k"], ["z"], { body: loopBody(0, 1) })],
      }),
  },
  {
    name: "bodies: many captured",
    size: 3_000,
    build: (n) =>
      model({
        inputs: [x, value("c", "bool", [])],
        nodes: [
          ...list(n, (at) => node("Relu", ["x"], [`v${at}`])),
          node("If", ["c"], ["y"], {
            then_branch: graph({
              outputs: [value("q")],
              nodes: [
                node(
                  "Sum",
                  list(n, (at) => `v${at}`),
                  ["q"],
                ),
              ],
            }),
            else_branch: graph({ outputs: [value("r")], nodes: [node("Neg", ["x"], ["r"])] }),
          }),
        ],
      }),
  },
  {
    name: "bodies: many captured by many",
    size: 300,
    build: (n) =>
      model({
        inputs: [x, value("c", "bool", [])],
        nodes: [
          ...list(n, (at) => node("Relu", ["x"], [`v${at}`])),
          ...list(n, (step) =>
            node("If", ["c"], [step === n - 1 ? "y" : `y${step}`], {
              then_branch: graph({
                outputs: [value("q")],
                nodes: [
                  node(
                    "Sum",
                    list(n, (at) => `v${at}`),
                    ["q"],
                  ),
                ],
              }),
              else_branch: graph({ outputs: [value("r")], nodes: [node("Neg", ["x"], ["r"])] }),
            }),
          ),
        ],
      }),
  },
  {
    name: "bodies: updates inside",
    size: 3_000,
    build: (n) =>
      model({
        inputs: [...cacheInputs, value("c", "bool", [])],
        nodes: [
          node("If", ["c"], ["y"], {
            then_branch: graph({
              outputs: [value(`v${n}`)],
              nodes: list(n, (at) => scatter(at === 0 ? "x" : `v${at}`, `v${at + 1}`)),
            }),
            else_branch: graph({ outputs: [value("r")], nodes: [node("Neg", ["x"], ["r"])] }),
          }),
        ],
      }),
  },
  {
    name: "bodies: Ifs in a row",
    size: 5_000,
    build: (n) =>
      chain(
        n,
        (from, to) => [
          node("If", ["c"], [to], {
            then_branch: graph({ outputs: [value("q")], nodes: [node("Relu", [from], ["q"])] }),
            else_branch: graph({ outputs: [value("q")], nodes: [node("Neg", [from], ["q"])] }),
          }),
        ],
        { inputs: [x, value("c", "bool", [])] },
      ),
  },

  // Constants
  {
    name: "constants: ConstantOfShape",
    size: 5_000,
    build: constants([ints("s", 65_000)], (at) => [
      node("ConstantOfShape", ["s"], [`k${at}`], { value: initializer("", "float64", [1], [1]) }),
    ]),
  },
  {
    name: "constants: Range",
    size: 5_000,
    build: constants([scalar("s", 0), scalar("e", 65_000), scalar("d", 1)], (at) => [
      node("Range", ["s", "e", "d"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: Range without end",
    size: 100,
    build: constants([scalar("s", 0), scalar("e", 2 ** 52), scalar("d", 1)], (at) => [
      node("Range", ["s", "e", "d"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: Expand",
    size: 5_000,
    build: constants([floats("o", [1]), ints("s", 250, 250)], (at) => [node("Expand", ["o", "s"], [`k${at}`])]),
  },
  {
    name: "constants: Tile",
    size: 5_000,
    build: constants([floats("o", [1]), ints("s", 65_000)], (at) => [node("Tile", ["o", "s"], [`k${at}`])]),
  },
  {
    name: "constants: MatMul",
    size: 2_000,
    build: constants([floats("m", [140, 140])], (at) => [
      node("MatMul", [at === 0 ? "m" : `k${at - 1}`, "m"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: MatMul of a column and a row",
    size: 2_000,
    build: constants([floats("m", [1, 30_000]), floats("o", [30_000, 1])], (at) => [
      node("MatMul", ["m", "o"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: Gemm",
    size: 1_000,
    build: constants([floats("m", [140, 140])], (at) => [node("Gemm", ["m", "m"], [`k${at}`], { alpha: at + 0.5 })]),
  },
  {
    name: "constants: Conv",
    size: 200,
    build: constants([floats("m", [1, 1, 16_000]), floats("o", [1, 1, 8_000])], (at) => [
      node("Conv", ["m", "o"], [`k${at}`], { pads: [at, 7_999] }),
    ]),
  },
  {
    name: "constants: ConvTranspose",
    size: 200,
    build: constants([floats("m", [1, 1, 8_000]), floats("o", [1, 1, 8_000])], (at) => [
      node("ConvTranspose", ["m", "o"], [`k${at}`], { group: 1, pads: [at, 0] }),
    ]),
  },
  {
    name: "constants: pools",
    size: 200,
    build: constants([floats("m", [1, 1, 30_000])], (at) => [
      node(at % 2 === 0 ? "MaxPool" : "AveragePool", ["m"], [`k${at}`], { kernel_shape: [14_000 + at], strides: [1] }),
    ]),
  },
  {
    name: "constants: Einsum",
    size: 50,
    build: constants([floats("m", [64])], (at) => [
      node(
        "Einsum",
        list(6, () => "m"),
        [`k${at}`],
        { equation: "a,b,c,d,e,f->a" },
      ),
    ]),
  },
  {
    name: "constants: Attention",
    size: 100,
    build: constants([floats("m", [1, 1, 2_000, 8])], (at) => [
      node("Attention", ["m", "m", "m"], [`k${at}`], { scale: at + 0.5 }),
    ]),
  },
  {
    name: "constants: Det",
    size: 100,
    build: constants([floats("m", [250, 250])], (at) => [node("Det", ["m"], [`k${at}`])]),
  },
  {
    name: "constants: CumSum",
    size: 2_000,
    build: constants([floats("m", [60_000]), scalar("z", 0)], (at) => [
      node("CumSum", [at === 0 ? "m" : `k${at - 1}`, "z"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: TopK",
    size: 1_000,
    build: constants([floats("m", [30_000]), ints("z", 15_000)], (at) => [
      node("TopK", ["m", "z"], [`k${at}`, `j${at}`]),
    ]),
  },
  {
    name: "constants: Unique",
    size: 500,
    build: constants([floats("m", [30_000])], (at) => [node("Unique", [at === 0 ? "m" : "m"], [`k${at}`])]),
  },
  {
    name: "constants: Unique along an axis",
    size: 500,
    build: constants(
      [
        initializer(
          "m",
          "float32",
          Float32Array.from({ length: 30_000 }, (_, i) => i % 30),
          [300, 100],
        ),
      ],
      (at) => [node("Unique", ["m"], [`k${at}`], { axis: at % 2 })],
    ),
  },
  {
    name: "constants: OneHot",
    size: 2_000,
    build: constants(
      [ints("m", ...list(250, (at) => at)), scalar("z", 250), initializer("v", "float32", [0, 1], [2])],
      (at) => [node("OneHot", ["m", "z", "v"], [`k${at}`])],
    ),
  },
  {
    name: "constants: Reduce",
    size: 5_000,
    build: constants([floats("m", [250, 250])], (at) => [node("ReduceSum", ["m"], [`k${at}`], { keepdims: at % 2 })]),
  },
  {
    name: "constants: Transpose",
    size: 5_000,
    build: constants([floats("m", [250, 130])], (at) => [
      node("Transpose", [at === 0 ? "m" : `k${at - 1}`], [`k${at}`]),
    ]),
  },
  {
    name: "constants: Cast",
    size: 5_000,
    build: constants([floats("m", [32_000])], (at) => [
      node("Cast", [at === 0 ? "m" : `k${at - 1}`], [`k${at}`], { to: at % 2 === 0 ? 11 : 1 }),
    ]),
  },
  {
    name: "constants: Pad",
    size: 3_000,
    build: constants([floats("m", [1]), ints("p", 0, 65_000)], (at) => [node("Pad", ["m", "p"], [`k${at}`])]),
  },
  {
    name: "constants: DequantizeLinear",
    size: 3_000,
    build: constants(
      [initializer("m", "int8", new Int8Array(32_000), [32_000]), initializer("z", "float32", [1], [])],
      (at) => [node("DequantizeLinear", ["m", "z"], [`k${at}`])],
    ),
  },
  {
    name: "constants: shapes of shapes",
    size: 20_000,
    build: constants([ints("m", 1, 2, 3)], (at) => [
      node("Concat", [at === 0 ? "m" : `h${at - 1}`, "m"], [`k${at}`], { axis: 0 }),
      node("Shape", [`k${at}`], [`h${at}`]),
    ]),
  },
  {
    name: "constants: lists that double",
    size: 40,
    build: constants([ints("m", 1, 2, 3)], (at) => [
      node("Concat", [at === 0 ? "m" : `k${at - 1}`, at === 0 ? "m" : `k${at - 1}`], [`k${at}`], { axis: 0 }),
    ]),
  },
  {
    name: "constants: strings that double",
    size: 60,
    build: constants([initializer("m", "string", ["ab"], [1])], (at) => [
      node("Concat", [at === 0 ? "m" : `k${at - 1}`, at === 0 ? "m" : `k${at - 1}`], [`k${at}`], { axis: 0 }),
    ]),
  },
  {
    name: "constants: large views",
    size: 5_000,
    build: constants(
      [initializer("m", "uint8", new Uint8Array(400_000), [400_000]), ints("p", 400, 1000), ints("q", -1)],
      (at) => [node("Reshape", [at === 0 ? "m" : `k${at - 1}`, at % 2 === 0 ? "p" : "q"], [`k${at}`])],
    ),
  },
  {
    name: "constants: sparse",
    size: 2_000,
    build: (n) =>
      model({ sparseInitializers: list(n, (at) => sparse(at, 2 ** 20)), nodes: [node("Relu", ["x"], ["y"])] }),
  },
  {
    name: "constants: huge dims",
    size: 100,
    build: (n) =>
      model({
        inputs: [value("x", "float32", [2 ** 53 - 1, 2 ** 53 - 1])],
        nodes: [
          ...list(n, (at) => node("Reshape", [at === 0 ? "x" : `v${at}`, "s"], [`v${at + 1}`])),
          node("Relu", [`v${n}`], ["y"]),
        ],
        initializers: [ints("s", -1)],
      }),
  },
  {
    name: "constants: Resize",
    size: 500,
    build: constants(
      [floats("m", [1, 1, 16, 16]), floats("r", [0]), initializer("f", "float32", [1, 1, 15, 15], [4])],
      (at) => [node("Resize", ["m", "r", "f"], [`k${at}`], { mode: "cubic" })],
    ),
  },
  {
    name: "constants: LSTM",
    size: 100,
    build: constants([floats("m", [100, 1, 10]), floats("w", [1, 400, 10]), floats("r", [1, 400, 100])], (at) => [
      node("LSTM", ["m", "w", "r"], [`k${at}`], { hidden_size: 100 }),
    ]),
  },
  {
    name: "constants: LpNormalization, LRN",
    size: 300,
    build: constants([floats("m", [1, 20_000, 1])], (at) => [node("LRN", ["m"], [`k${at}`], { size: 19_999 })]),
  },
  {
    name: "constants: Scatter",
    size: 1_000,
    build: constants([floats("m", [20_000]), ints("i", ...list(20_000, (at) => at))], (at) => [
      node("ScatterElements", [at === 0 ? "m" : `k${at - 1}`, "i", "m"], [`k${at}`]),
    ]),
  },
  {
    name: "constants: QuantizeLinear in blocks",
    size: 1_000,
    build: constants([floats("m", [32, 1000]), floats("s", [32, 10])], (at) => [
      node("QuantizeLinear", ["m", "s"], [`k${at}`], { block_size: 100, output_dtype: 3 }),
    ]),
  },

  // What passes look at
  { name: "passes: masks that are added up", size: 30, build: (n) => attentions(20, n) },
  { name: "passes: attentions", size: 500, build: (n) => attentions(n, 0) },
  { name: "passes: rotary angles behind a long chain", size: 3_000, build: (n) => rotary(n) },
  {
    name: "passes: Transposes",
    size: 20_000,
    build: (n) => chain(n, (from, to) => [node("Transpose", [from], [to], { perm: [1, 0] })]),
  },

  // Decoders, as exporters write them
  { name: "decoder: layers", size: 500, build: decoder },
];

function attentions(count: number, depth: number): Uint8Array {
  return model({
    inputs: [value("x", "float32", ["b", 2, "s", 4])],
    initializers: [initializer("half", "float32", [0.5], []), floats("mask", [1, 1, 1, 1])],
    nodes: [
      node("Shape", ["x"], ["len"], { start: 2, end: 3 }),
      node("Expand", ["mask", "len"], ["a0"]),
      ...list(depth, (at) => node("Add", [`a${at}`, `a${at}`], [`a${at + 1}`])),
      ...list(count, (at) => {
        const from = at === 0 ? "x" : `h${at}`;
        return [
          node("Transpose", [from], [`t${at}`], { perm: [0, 1, 3, 2] }),
          node("MatMul", [from, `t${at}`], [`s${at}`]),
          node("Mul", [`s${at}`, "half"], [`c${at}`]),
          node("Add", [`c${at}`, `a${depth}`], [`m${at}`]),
          node("Softmax", [`m${at}`], [`p${at}`], { axis: -1 }),
          node("MatMul", [`p${at}`, from], [`h${at + 1}`]),
        ];
      }).flat(),
      node("Identity", [`h${count}`], ["y"]),
    ],
  });
}

/** x·cos + rotate(x)·sin, whose angles come out of a long chain. */
function rotary(count: number, times = 1): Uint8Array {
  return model({
    inputs: [value("x0", "float32", ["b", 2, "s", 8]), value("f", "float32", ["b", 1, "s", 4])],
    initializers: [ints("z", 0), ints("h", 4), ints("e", 8), ints("ax", 3), initializer("k", "float32", [1.5], [])],
    nodes: [
      node("Concat", ["f", "f"], ["v0"], { axis: -1 }),
      ...list(count, (at) =>
        node(at % 2 === 0 ? "Mul" : "Cos", at % 2 === 0 ? [`v${at}`, "k"] : [`v${at}`], [`v${at + 1}`]),
      ),
      node("Cos", [`v${count}`], ["cos"]),
      node("Sin", [`v${count}`], ["sin"]),
      ...list(times, (at) => [
        node("Mul", [`x${at}`, "cos"], [`xc${at}`]),
        node("Slice", [`x${at}`, "z", "h", "ax"], [`xl${at}`]),
        node("Slice", [`x${at}`, "h", "e", "ax"], [`xr${at}`]),
        node("Neg", [`xr${at}`], [`n${at}`]),
        node("Concat", [`n${at}`, `xl${at}`], [`rot${at}`], { axis: -1 }),
        node("Mul", [`rot${at}`, "sin"], [`xs${at}`]),
        node("Add", [`xc${at}`, `xs${at}`], [`x${at + 1}`]),
      ]).flat(),
      node("Identity", [`x${times}`], ["y"]),
    ],
  });
}
