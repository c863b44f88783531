/** The discrete Fourier transform of one line of complex numbers, in float64: by the prime factors of its length. */

/** Complex numbers. */
interface Complex {
  readonly real: Float64Array;
  readonly imaginary: Float64Array;
}

export const complexLine = (length: number): Complex => ({
  real: new Float64Array(length),
  imaginary: new Float64Array(length),
});

function smallestFactor(number: number): number {
  for (let factor = 2; factor * factor <= number; factor++) if (number % factor === 0) return factor;
  return number;
}

/** Steps that a transform of this length takes for each element. */
export function stepsOf(length: number): number {
  let steps = 1;
  for (let rest = length; rest > 1; rest /= smallestFactor(rest)) steps += smallestFactor(rest);
  return steps;
}

/** Cosine and sine of so many parts of a turn; exact at its quarters. */
function turned(at: number, parts: number): readonly [cosine: number, sine: number] {
  const quarter = (4 * at) / parts;
  if (Number.isInteger(quarter))
    return (
      [
        [1, 0],
        [0, 1],
        [-1, 0],
        [0, -1],
      ] as const
    )[quarter % 4];
  const angle = (2 * Math.PI * at) / parts;
  return [Math.cos(angle), Math.sin(angle)];
}

/** Transforms of one length and direction; roots of unity are computed once. */
export class Fourier {
  readonly length: number;
  readonly #roots: Complex;
  readonly #sums: Complex;

  /** Without a factor in front, in either direction. */
  constructor(length: number, inverse: boolean) {
    this.length = length;
    this.#roots = complexLine(length);
    this.#sums = complexLine(length);
    for (let at = 0; at < length; at++) {
      const [cosine, sine] = turned(at, length);
      this.#roots.real[at] = cosine;
      this.#roots.imaginary[at] = inverse ? sine : -sine;
    }
  }

  /** Fills `to` with the transform of `from`. */
  run(from: Complex, to: Complex): void {
    if (this.length > 0) this.#run(from, 0, 1, this.length, to, 0);
  }

  /** The transform of every `step`-th element from `start` on, `length` of them, into `to` from `at` on. */
  #run(from: Complex, start: number, step: number, length: number, to: Complex, at: number): void {
    if (length === 1) {
      to.real[at] = from.real[start];
      to.imaginary[at] = from.imaginary[start];
      return;
    }
    const factor = smallestFactor(length);
    const part = length / factor;
    for (let index = 0; index < factor; index++)
      this.#run(from, start + index * step, step * factor, part, to, at + index * part);
    const { real, imaginary } = this.#roots;
    const [sums, turn] = [this.#sums, this.length / length];
    for (let within = 0; within < part; within++) {
      for (let index = 0; index < factor; index++) {
        let [re, im] = [0, 0];
        const place = index * part + within;
        for (let other = 0; other < factor; other++) {
          const root = ((other * place) % length) * turn;
          const source = at + other * part + within;
          re += to.real[source] * real[root] - to.imaginary[source] * imaginary[root];
          im += to.real[source] * imaginary[root] + to.imaginary[source] * real[root];
        }
        sums.real[index] = re;
        sums.imaginary[index] = im;
      }
      for (let index = 0; index < factor; index++) {
        to.real[at + index * part + within] = sums.real[index];
        to.imaginary[at + index * part + within] = sums.imaginary[index];
      }
    }
  }
}
