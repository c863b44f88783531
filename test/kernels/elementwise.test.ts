// Element-wise chains against plain loops: every operator over its whole range, broadcasts, and random little programs.
import { expect, test } from "vitest";
import { instruction, operationCode } from "../../src/wasm-kernels/jobs.js";
import { decode, encode, fromBits, type FloatType, floatTypes, toleranceOf } from "./float-types.js";
import { expectClose, Random, seeds, variants, Workbench } from "./workbench.js";

type Operation = keyof typeof operationCode;

/** The error function, by its series and its continued fraction. */
function erf(x: number): number {
  const a = Math.abs(x);
  if (a < 2.5) {
    let [sum, term] = [a, a];
    for (let n = 1; n < 80; n++) {
      term *= (-a * a) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / ((a + fraction) * Math.sqrt(Math.PI)));
}

const unary: Readonly<Partial<Record<Operation, (x: number) => number>>> = {
  negate: (x) => -x,
  absolute: Math.abs,
  reciprocal: (x) => 1 / x,
  squareRoot: Math.sqrt,
  exponential: Math.exp,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  tanh: Math.tanh,
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  geluTanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x) => Math.max(x, 0),
  errorFunction: erf,
  square: (x) => x * x,
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
};

const binary: Readonly<Partial<Record<Operation, (x: number, y: number) => number>>> = {
  add: (x, y) => x + y,
  subtract: (x, y) => x - y,
  multiply: (x, y) => x * y,
  divide: (x, y) => x / y,
  minimum: Math.min,
  maximum: Math.max,
};

type Line = { readonly operation: Operation } & Readonly<
  Partial<Record<Exclude<keyof typeof instruction, "operation">, number>>
>;

/** The bytes of a program. */
function assemble(lines: readonly Line[]): Uint8Array {
  const fields = Object.keys(instruction);
  const view = new DataView(new ArrayBuffer(lines.length * fields.length * 4));
  lines.forEach((line, at) =>
    fields.forEach((field, i) => {
      const value = field === "operation" ? operationCode[line.operation] : Number(line[field as keyof Line] ?? 0);
      const offset = (at * fields.length + i) * 4;
      if (field === "immediate") view.setFloat32(offset, value, true);
      else view.setInt32(offset, value, true);
    }),
  );
  return new Uint8Array(view.buffer);
}

/** Operators whose small results keep their relative precision, and how far they may be off. */
const relative: Readonly<Partial<Record<Operation, number>>> = {
  exponential: 2.5e-7,
  sigmoid: 4e-7,
  tanh: 4e-7,
  softplus: 4e-7,
  errorFunction: 6e-7,
};

for (const variant of variants) {
  for (const [name, truth] of Object.entries(unary) as [Operation, (x: number) => number][]) {
    test(`${name}, ${variant}`, () => {
      const special = [
        0,
        -0,
        Infinity,
        -Infinity,
        NaN,
        88.7,
        88.8,
        -87.3,
        -87.4,
        1e-20,
        -1e-20,
        3.925,
        -0.625,
        0.921875,
      ];
      const random = new Random(11);
      const values = Float32Array.from([
        ...special,
        ...Array.from({ length: 4000 }, (_, i) => (i - 2000) / 20),
        ...Array.from({ length: 2001 }, () => fromBits(Math.floor(random.unit() * 2 ** 32))),
      ]);
      const bench = new Workbench(variant, 16);
      const output = bench.reserve(values.length * 4, 4);
      const program = assemble([
        { operation: "load", target: 3, address: bench.place(values, 4), columnStride: 1 },
        { operation: name, target: 3, first: 3 },
        { operation: "store", first: 3, address: output, columnStride: 1 },
      ]);
      const job = { program: bench.place(program), instructions: 3, rows: 1, columns: values.length };
      bench.run("elementwise", job, [{ at: output, bytes: values.length * 4 }]);
      const actual = bench.floats(output, values.length);
      values.forEach((x, i) => {
        const expected = Math.fround(truth(x));
        if (Object.is(actual[i], expected) || (Number.isNaN(actual[i]) && Number.isNaN(expected))) return;
        // Below the smallest normal number results may be zero.
        const bound = relative[name]
          ? relative[name] * Math.abs(expected) + 1.2e-38
          : 5e-7 * Math.abs(expected) + 2e-6 * Math.min(1, Math.abs(x));
        if (!(Math.abs(actual[i] - expected) <= bound)) expect.fail(`${name}(${x}) is ${actual[i]}, not ${expected}`);
      });
    });
  }

  for (const seed of seeds) {
    test(`chains, ${variant}, seed ${seed}`, () => {
      const random = new Random(seed);
      for (let round = 0; round < 12; round++) {
        const rows = random.pick([1, 2, 5]);
        const columns = random.pick([1, 2, 3, 4, 7, 8, 100, 511, 512, 513, 1300]);
        const bench = new Workbench(variant, 32);
        const lines: Line[] = [];
        const truths: Float64Array[] = [];
        const outputType: FloatType = random.pick(floatTypes);
        for (let register = 0; register < 4; register++) {
          const type = random.pick(floatTypes);
          const [rowStride, columnStride, size] = random.pick([
            [columns, 1, rows * columns],
            [0, 1, columns],
            [1, 0, rows],
            [0, 0, 1],
          ]);
          const operand = encode(
            type,
            random.floats(size).map((x) => x + 0.1),
          );
          lines.push({
            operation: "load",
            target: register,
            address: bench.place(operand.data, 4),
            type: operand.code,
            rowStride,
            columnStride,
          });
          truths[register] = Float64Array.from(
            { length: rows * columns },
            (_, i) => operand.rounded[Math.floor(i / columns) * rowStride + (i % columns) * columnStride],
          );
        }
        lines.push({ operation: "constant", target: 4, immediate: 0.75 });
        truths[4] = new Float64Array(rows * columns).fill(0.75);
        for (let count = 0; count < 6; count++) {
          const [target, first, second] = [random.integer(0, 7), random.integer(0, 4), random.integer(0, 4)];
          const operation = random.pick([
            "add",
            "subtract",
            "multiply",
            "minimum",
            "maximum",
            "silu",
            "tanh",
            "relu",
          ] as const);
          lines.push({ operation, target, first, second });
          const [x, y] = [truths[first].slice(), truths[second].slice()];
          truths[target] = x.map((value, i) =>
            unary[operation] ? unary[operation](value) : binary[operation]!(value, y[i]),
          );
        }
        const last = lines.at(-1)!.target!;
        const width = outputType === "float32" ? 4 : 2;
        const bytes = rows * columns * width;
        const output = bench.reserve(bytes, 4);
        const code = floatTypes.indexOf(outputType);
        lines.push({
          operation: "store",
          first: last,
          address: output,
          type: code,
          rowStride: columns,
          columnStride: 1,
        });
        const job = { program: bench.place(assemble(lines)), instructions: lines.length, rows, columns };
        bench.run("elementwise", job, [{ at: output, bytes }]);
        const what = JSON.stringify({ rows, columns, lines });
        expectClose(decode(outputType, bench.copy(output, bytes)), truths[last], toleranceOf(outputType), what);
      }
    });
  }
}
