// Attention a second time, written the other way round: the full additive bias is built first as a matrix, then whole matrices
// are multiplied and normalised. In float64 throughout; for small operands.

export interface Operands {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queries: number;
  readonly keys: number; // fresh ones
  readonly past: number;
  readonly size: number;
  readonly valueSize: number;
  /** Row-major [batch, heads, queries, size] and so on, all with heads outside. */
  readonly q: readonly number[];
  readonly k: readonly number[];
  readonly v: readonly number[];
  readonly pastK: readonly number[];
  readonly pastV: readonly number[];
  readonly mask: Mask | undefined;
  readonly nonpad: readonly number[] | undefined;
}

export interface Mask {
  readonly boolean: boolean;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

export interface Options {
  readonly opset: number;
  readonly causal: boolean;
  readonly left: number;
  readonly right: number;
  readonly scale: number | undefined;
  readonly softcap: number;
  readonly mode: number;
}

export interface Results {
  readonly y: number[]; // [batch, heads, queries, value size]
  readonly presentK: number[]; // [batch, kv heads, past + keys, size]
  readonly presentV: number[];
  readonly scores: number[]; // [batch, heads, queries, past + keys]
}

type Matrix = number[][];

const grid = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

/** Rows `row … row + rows` of a row-major array of `width` columns. */
const rowsOf = (values: readonly number[], row: number, rows: number, width: number): Matrix =>
  grid(rows, (i) => values.slice((row + i) * width, (row + i + 1) * width));

const multiply = (a: Matrix, b: Matrix, columns: number): Matrix =>
  a.map((row) => grid(columns, (j) => row.reduce((sum, x, i) => sum + x * b[i][j], 0)));

const transpose = (a: Matrix, columns: number): Matrix => grid(columns, (j) => a.map((row) => row[j]));

/** The mask as one number a score, padded or broadcast by the opset's rule. */
function maskBias(mask: Mask, opset: number, at: readonly [number, number, number, number], total: number): number {
  let shape = [...mask.shape];
  let values = mask.values.map((value) => (mask.boolean ? (value === 0 ? -Infinity : 0) : value));
  const width = shape.at(-1)!;
  if (opset >= 24 && width < total) {
    values = rowsOf(values, 0, values.length / width, width).flatMap((row) => [
      ...row,
      ...grid(total - width, () => -Infinity),
    ]);
    shape = [...shape.slice(0, -1), total];
  }
  const indices = at.slice(4 - shape.length);
  return values[shape.reduce((flat, dim, axis) => flat * dim + (dim === 1 ? 0 : indices[axis]), 0)];
}

function biasMatrix(operands: Operands, options: Options, sample: number, head: number): Matrix {
  const { queries, keys, past, mask, nonpad } = operands;
  const total = past + keys;
  const offset = nonpad === undefined ? past : nonpad[sample] - queries;
  return grid(queries, (i) =>
    grid(total, (j) => {
      let bias = mask === undefined ? 0 : maskBias(mask, options.opset, [sample, head, i, j], total);
      if (options.causal && j > i + offset) bias += -Infinity;
      if (options.left >= 0 && i + offset - j > options.left) bias += -Infinity;
      if (options.right >= 0 && j - (i + offset) > options.right) bias += -Infinity;
      if (nonpad !== undefined && j >= nonpad[sample]) bias += -Infinity;
      return bias;
    }),
  );
}

function softmax(logits: Matrix, bias: Matrix): Matrix {
  return logits.map((row, i) => {
    if (bias[i].every((value) => value === -Infinity)) return row.map(() => 0);
    const largest = Math.max(...row);
    const exponentials = row.map((x) => Math.exp(x - largest));
    const sum = exponentials.reduce((a, b) => a + b, 0);
    return exponentials.map((x) => x / sum);
  });
}

export function attention(operands: Operands, options: Options): Results {
  const { batch, heads, kvHeads, queries, keys, past, size, valueSize } = operands;
  const total = past + keys;
  const results: Results = { y: [], presentK: [], presentV: [], scores: [] };
  const join = (a: readonly number[], b: readonly number[], width: number): Matrix[] =>
    grid(batch * kvHeads, (i) => [...rowsOf(a, i * past, past, width), ...rowsOf(b, i * keys, keys, width)]);
  const allK = join(operands.pastK, operands.k, size);
  const allV = join(operands.pastV, operands.v, valueSize);
  results.presentK.push(...allK.flat(2));
  results.presentV.push(...allV.flat(2));
  for (let i = 0; i < batch * heads; i++) {
    const [sample, head] = [Math.floor(i / heads), i % heads];
    const shared = sample * kvHeads + Math.floor(head / (heads / kvHeads));
    const scale = options.scale ?? 1 / Math.sqrt(size);
    const product = multiply(rowsOf(operands.q, i * queries, queries, size), transpose(allK[shared], size), total).map(
      (row) => row.map((x) => x * scale),
    );
    const capped =
      options.softcap === 0
        ? product
        : product.map((row) => row.map((x) => options.softcap * Math.tanh(x / options.softcap)));
    const bias = biasMatrix(operands, options, sample, head);
    const logits = capped.map((row, r) => row.map((x, c) => x + bias[r][c]));
    const weights = softmax(logits, bias);
    results.y.push(...multiply(weights, allV[shared], valueSize).flat());
    results.scores.push(...[product, capped, logits, weights][options.mode].flat());
  }
  return results;
}
