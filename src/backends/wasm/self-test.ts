/**
 * Tries the compiled kernels that use relaxed instructions on numbers whose results are exact, so that any correct engine gives the
 * same bits. For choosing a build at load; not a test of the kernels, which the test suite is.
 */
import {
  type JobOf,
  type KernelExports,
  kernelJobs,
  type KernelName,
  packedRowBytes,
  panelsAtOnce,
  quantizedBytes,
  reservedBytes,
  scratchBytes,
} from "../../wasm-kernels/exports.js";
import { elementCode, jobBytes, type JobLayout, levelCode, writeJob } from "../../wasm-kernels/jobs.js";

const pages = 8;

/** A small memory with one instance of the kernels. */
class TrialMemory {
  readonly #memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  readonly #kernels: KernelExports;
  #next = reservedBytes;

  constructor(module: WebAssembly.Module) {
    this.#kernels = new WebAssembly.Instance(module, { env: { memory: this.#memory } }).exports as KernelExports;
  }

  /** Forgets what was placed. */
  clear(): this {
    this.#next = reservedBytes;
    return this;
  }

  take(bytes: number): number {
    const address = this.#next;
    this.#next += Math.ceil(bytes / 16) * 16;
    return address;
  }

  floats(address: number, count: number): Float32Array {
    return new Float32Array(this.#memory.buffer, address, count);
  }

  /** The address of float32 values. */
  place(values: readonly number[]): number {
    const address = this.take(values.length * 4);
    this.floats(address, values.length).set(values);
    return address;
  }

  placeBytes(values: readonly number[]): number {
    const address = this.take(values.length);
    new Uint8Array(this.#memory.buffer, address, values.length).set(values);
    return address;
  }

  run<Name extends KernelName>(kernel: Name, job: JobOf<Name>): void {
    const layout: JobLayout = kernelJobs[kernel];
    const { buffer } = this.#memory;
    const address = this.take(jobBytes(layout));
    const values = job as Readonly<Record<string, number>>;
    writeJob(new Int32Array(buffer), new Float32Array(buffer), address, layout, values);
    this.#kernels[kernel](address, 0, 1, this.take(scratchBytes(kernel, job)));
  }
}

/** Lengths with a tail behind every vector, panel and block. */
const [k, n] = [100, 19];
const rowCounts = [1, 5, 13];

/**
 * Whole numbers that vary. The first of every 32 is the largest, so that quantizing to 8 bits changes nothing; with 16 bits it is that of
 * the row.
 */
const activation = (at: number, precision: number): number => {
  if (precision === 16 && at % k === 0) return 32_767;
  return (at % k) % 32 === 0 ? 127 : ((at * 37) % 255) - 127;
};

/** A weight of so many bits: column by column, less the middle of its range. */
const weight = (column: number, at: number, bits: number): number =>
  (((column * 7919 + at * 104_729 + 12_345) >> 3) & (2 ** bits - 1)) - 2 ** (bits - 1);

const activations = (m: number, precision: number): number[] =>
  Array.from({ length: m * k }, (_, at) => activation(at, precision));

/** activations[m, k] · weights[k, n], exactly. */
const product = (m: number, bits: number, precision: number): number[] =>
  Array.from({ length: m * n }, (_, index) => {
    const [row, column] = [Math.floor(index / n), index % n];
    let sum = 0;
    for (let at = 0; at < k; at++) sum += activation(row * k + at, precision) * weight(column, at, bits);
    return sum;
  });

/** What products are made of: how the weights lie and how the rows of a are taken. */
interface Way {
  readonly turned: boolean; // weights as [n, k]
  readonly packed: boolean;
  readonly splits: number;
  /** Weights of 8 bits with a scale of 1. */
  readonly levels: boolean;
}

/** Float weights, or 8 bits with a scale: fused multiply-add. */
function multiply(trial: TrialMemory, m: number, { turned, packed, splits, levels }: Way): Float32Array {
  const all = Array.from({ length: n * k }, (_, at) =>
    turned ? weight(Math.floor(at / k), at % k, 8) : weight(at % n, Math.floor(at / n), 8),
  );
  const job = {
    a: trial.place(activations(m, 8)),
    b: levels ? trial.placeBytes(all) : trial.place(all),
    c: trial.take(m * n * 4),
    bias: 0,
    rows: packed ? trial.take(packedRowBytes({ batch: 1, m, k })) : 0,
    partials: splits === 1 ? 0 : trial.take(splits * m * n * 4),
    aType: elementCode.float32,
    bType: levels ? levelCode.int8 : elementCode.float32,
    m,
    n,
    k,
    aRow: k,
    aColumn: 1,
    bK: turned ? 1 : n,
    bN: turned ? k : 1,
    cRow: n,
    batch: 1,
    aBatch: 0,
    bBatch: 0,
    cBatch: 0,
    splits,
    looks: 0,
    scale: levels ? trial.place([1]) : 0,
    zero: 0,
    scaleK: 0,
    scaleN: 0,
    block: 32,
    panels: panelsAtOnce(n, 1 << 18),
  };
  if (packed) trial.run("packRows", job);
  trial.run("matmul", job);
  if (splits > 1) trial.run("matmulMerge", job);
  return trial.floats(job.c, m * n);
}

/** Blocks of weights: dot products of 16 bits, and of bytes; with 32 bits fused multiply-add. */
function multiplyBlocks(trial: TrialMemory, m: number, bits: number, precision: number): Float32Array {
  const form = { m, k, blockSize: 32, bits, precision, alike: 0 };
  const sizes = quantizedBytes(form);
  const [values, aScales, aSums] = [trial.take(sizes.values), trial.take(sizes.scales), trial.take(sizes.sums)];
  const source = trial.place(activations(m, precision));
  const type = elementCode.float32;
  if (precision < 32)
    trial.run("quantizeRows", { source, values, scales: aScales, sums: aSums, type, sourceRow: k, ...form });
  const row = Math.ceil(k / 32) * 32;
  const level = (at: number): number => weight(Math.floor(at / row), at % row, bits) + 2 ** (bits - 1);
  const byte = (at: number): number => (bits === 8 ? level(at) : level(2 * at) + (level(2 * at + 1) << 4));
  const b = trial.placeBytes(Array.from({ length: (n * row * bits) / 8 }, (_, at) => byte(at)));
  const scales = trial.place(new Array<number>((n * row) / 32).fill(1));
  const c = trial.take(m * n * 4);
  const given = { zeros: 0, bias: 0, scaleType: type, zerosType: -1, bRow: 0, zerosRow: 0 };
  const rest = { ...given, n, cRow: n, a: source, aType: type, rows: 0 };
  trial.run("matmulBlocks", { values, aScales, aSums, b, scales, c, ...rest, ...form });
  return trial.floats(c, m * n);
}

/** Bytes by bytes. */
function multiplyIntegers(trial: TrialMemory, m: number): Int32Array {
  const a = trial.placeBytes(activations(m, 8));
  const b = trial.placeBytes(Array.from({ length: n * k }, (_, at) => weight(at % n, Math.floor(at / n), 8)));
  const c = trial.take(m * n * 4);
  const zeros = { aZero: 0, bZero: 0, aSigned: 1, bSigned: 1, aZeroStep: 0, bZeroStep: 0 };
  trial.run("matmulInteger", { a, b, c, ...zeros, m, n, k, cRow: n });
  return new Int32Array(trial.floats(c, m * n).buffer, c, m * n);
}

const ways: readonly Way[] = [
  { turned: false, packed: false, splits: 1, levels: false },
  { turned: false, packed: false, splits: 3, levels: false },
  { turned: true, packed: false, splits: 1, levels: false },
  { turned: false, packed: true, splits: 1, levels: false },
  { turned: true, packed: true, splits: 1, levels: false },
  { turned: false, packed: false, splits: 2, levels: true },
  { turned: false, packed: true, splits: 1, levels: true },
];

/** Bits of weights and of activations. */
const forms: readonly (readonly [bits: number, precision: number])[] = [
  [8, 16],
  [4, 16],
  [4, 8],
  [8, 32],
  [4, 32],
];

/** True if every product of the relaxed build computes right here. */
export function relaxedBuildWorks(module: WebAssembly.Module): boolean {
  const agrees = (actual: ArrayLike<number>, expected: readonly number[]): boolean =>
    expected.every((value, at) => value === actual[at]);
  try {
    const trial = new TrialMemory(module);
    return rowCounts.every((m) => {
      const bytes = product(m, 8, 8);
      return (
        ways.every((way) => agrees(multiply(trial.clear(), m, way), bytes)) &&
        agrees(multiplyIntegers(trial.clear(), m), bytes) &&
        forms.every(([bits, precision]) =>
          agrees(multiplyBlocks(trial.clear(), m, bits, precision), product(m, bits, precision)),
        )
      );
    });
  } catch {
    return false;
  }
}
