/**
 * Tries the compiled kernels that use relaxed instructions on numbers whose results are exact, so that any correct engine gives the
 * same bits. For choosing a build at load; not a test of the kernels, which the test suite is.
 */
import {
  type JobOf,
  type KernelExports,
  kernelJobs,
  type KernelName,
  panelBytes,
  quantizedBytes,
  reservedBytes,
  scratchBytes,
} from "../../kernels/exports.js";
import { elementCode, jobBytes, type JobLayout, writeJob } from "../../kernels/jobs.js";

const pages = 8;

/** A small memory with one instance of the kernels. */
class Bench {
  readonly #memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  readonly #kernels: KernelExports;
  #next = reservedBytes;

  constructor(module: WebAssembly.Module) {
    this.#kernels = new WebAssembly.Instance(module, { env: { memory: this.#memory } }).exports as KernelExports;
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

const [k, n] = [64, 16];

/** Whole numbers that vary; the first of every 32 is the largest, so that quantizing to 8 bits changes nothing. */
const activation = (index: number): number => (index % 32 === 0 ? 127 : ((index * 37) % 255) - 127);
const weight = (index: number): number => (((index * 7919 + (index >> 6) * 1_299_709) >> 4) & 15) - 8;

const activations = (m: number): number[] => Array.from({ length: m * k }, (_, index) => activation(index));

/** activations[m, k] · weights[n, k]ᵀ, exactly. */
const product = (m: number): number[] =>
  Array.from({ length: m * n }, (_, index) => {
    const [row, column] = [Math.floor(index / n), index % n];
    let sum = 0;
    for (let at = 0; at < k; at++) sum += activation(row * k + at) * weight(column * k + at);
    return sum;
  });

/** float32 weights in panels: fused multiply-add. */
function multiply(bench: Bench, m: number): Float32Array {
  const source = bench.place(Array.from({ length: n * k }, (_, index) => weight(index)));
  const panels = bench.take(panelBytes(k, n, 4));
  const whole = { k, n, kFrom: 0, kTo: k, nFrom: 0, nTo: n, batch: 1, sourceBatch: 0, targetBatch: 0 };
  bench.run("packPanels", { ...whole, source, target: panels, type: elementCode.float32, sourceK: 1, sourceN: k });
  const [a, c] = [bench.place(activations(m)), bench.take(m * n * 4)];
  const types = { aType: elementCode.float32, bType: elementCode.float32 };
  const strides = { aRow: k, aColumn: 1, cRow: n, batch: 1, aBatch: 0, bBatch: 0, cBatch: 0 };
  bench.run("matmul", { a, b: panels, c, bias: 0, ...types, m, n, k, ...strides });
  return bench.floats(c, m * n);
}

/** 4-bit weights and 8-bit activations: the dot product of bytes. */
function multiplyBlocks(bench: Bench, m: number): Float32Array {
  const form = { m, k, blockSize: 32, bits: 4, precision: 8 };
  const bytes = quantizedBytes(form);
  const [values, aScales, aSums] = [bench.take(bytes.values), bench.take(bytes.scales), bench.take(bytes.sums)];
  const source = bench.place(activations(m));
  const type = elementCode.float32;
  bench.run("quantizeRows", { source, values, scales: aScales, sums: aSums, type, sourceRow: k, ...form });
  const nibbles = (at: number): number => weight(2 * at) + 8 + ((weight(2 * at + 1) + 8) << 4);
  const b = bench.placeBytes(Array.from({ length: (n * k) / 2 }, (_, at) => nibbles(at)));
  const scales = bench.place(new Array<number>((n * k) / 32).fill(1));
  const c = bench.take(m * n * 4);
  const rest = { zeros: 0, bias: 0, scaleType: type, zerosType: -1, n, cRow: n };
  bench.run("matmulBlocks", { values, aScales, aSums, b, scales, c, ...rest, ...form });
  return bench.floats(c, m * n);
}

/** True if the relaxed build computes right here. */
export function relaxedBuildWorks(module: WebAssembly.Module): boolean {
  const right = (m: number, compute: (bench: Bench, m: number) => Float32Array): boolean => {
    const expected = product(m);
    return compute(new Bench(module), m).every((value, at) => value === expected[at]);
  };
  try {
    return right(1, multiply) && right(6, multiply) && right(1, multiplyBlocks);
  } catch {
    return false;
  }
}
