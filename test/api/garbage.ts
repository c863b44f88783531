// Values of every kind that have no business where they are put, and how a call with one of them may end.
import { expect } from "vitest";
import { InsituError } from "../../src/base/error.js";
import { State } from "../../src/session/state.js";
import { Tensor } from "../../src/tensor/tensor.js";

/** What a proxy of these tests throws when anything is asked of it: a caller's own error may come back to the caller. */
export const own = new Error("thrown by the caller's own object");
const refuses = (): never => {
  throw own;
};
const refusing: ProxyHandler<object> = {
  get: refuses,
  has: refuses,
  ownKeys: refuses,
  getPrototypeOf: refuses,
  getOwnPropertyDescriptor: refuses,
};

/** An array whose buffer was transferred away. */
export function detached(length = 4): Float32Array {
  const array = new Float32Array(length);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

/** A tensor whose buffer was transferred away after it was made. */
export function detachedTensor(dims: readonly number[] = [4]): Tensor {
  const array = new Float32Array(dims.reduce((all, dim) => all * dim, 1));
  const tensor = new Tensor("float32", array, dims);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return tensor;
}

function disposed(): Tensor {
  const tensor = new Tensor("float32", [1, 2, 3, 4], [4]);
  tensor.dispose();
  return tensor;
}

class Thing {
  readonly name = "thing";
}

/** The garbage, by a name that a failure shows. */
export const garbage: readonly (readonly [name: string, value: unknown])[] = [
  ...[null, undefined, NaN, -1, 0, 1, 1.5, 1e9, 2 ** 53, Infinity, true, 10n, -1n].map(
    (value) => [String(value), value] as const,
  ),
  ...["", "x", "__proto__", "constructor", "toString", "1"].map((text) => [JSON.stringify(text), text] as const),
  ["Symbol", Symbol("s")],
  ["[]", []],
  ["[null]", [null]],
  ["[undefined]", [undefined]],
  ["a list with holes", new Array(3)],
  ["[[]]", [[]]],
  ["[NaN]", [NaN]],
  ["[-1]", [-1]],
  ["[1.5]", [1.5]],
  ["[1e9, 1e9, 1e9]", [1e9, 1e9, 1e9]],
  ['["x"]', ["x"]],
  ["[Symbol]", [Symbol("s")]],
  ["[10n]", [10n]],
  ["[{}]", [{}]],
  ["{}", {}],
  ["{ length: 3 }", { length: 3 }],
  ["{ length: -1 }", { length: -1 }],
  ["an object without a prototype", Object.create(null)],
  ["a frozen object", Object.freeze({ a: 1 })],
  ["an object that is called an array", { [Symbol.toStringTag]: "Float32Array", length: 4, buffer: null }],
  ["a function", () => 1],
  ["an instance", new Thing()],
  ["a Map", new Map([["x", 1]])],
  ["a Date", new Date(NaN)],
  ["a RegExp", /x/],
  ["an Error", new Error("e")],
  ["a Promise", Promise.resolve(1)],
  ["a Uint8Array", new Uint8Array(5)],
  ["a Float32Array", Float32Array.of(1, NaN)],
  ["an ArrayBuffer", new ArrayBuffer(8)],
  ["a DataView", new DataView(new ArrayBuffer(8))],
  ["a detached array", detached()],
  ["a detached buffer", detached().buffer],
  ["a proxy", new Proxy({}, {})],
  ["a proxy that throws", new Proxy({}, refusing)],
  ["a list that throws", new Proxy([], refusing)],
  ["a tensor", new Tensor("float32", [1, 2, 3, 4], [4])],
  ["an empty tensor", new Tensor("int64", [], [0])],
  ["a tensor of strings", new Tensor("string", ["a"], [1])],
  ["a disposed tensor", disposed()],
  ["a detached tensor", detachedTensor()],
  ["an object with a tensor's prototype", Object.create(Tensor.prototype)],
  ["a proxy of a tensor", new Proxy(new Tensor("float32", [1], [1]), {})],
  ["an object with a state's prototype", Object.create(State.prototype)],
];

/** Calls that are to end well or with an InsituError; what ended otherwise is told together. */
export class Doors {
  readonly #told: string[] = [];
  calls = 0;
  refused = 0;

  /** Tries one call. */
  async try(name: string, call: () => unknown): Promise<void> {
    this.calls++;
    try {
      await call();
    } catch (error) {
      if (error === own) return;
      if (!(error instanceof InsituError)) this.#tell(name, error);
      else if (error.code === "internal") this.#tell(name, error);
      else this.refused++;
    }
  }

  /** Tries a call with each piece of garbage. */
  async each(name: string, call: (value: unknown) => unknown): Promise<void> {
    for (const [what, value] of garbage) await this.try(`${name} with ${what}`, () => call(value));
  }

  #tell(name: string, error: unknown): void {
    const first = error instanceof Error ? `${error.name}: ${error.message}` : typeof error;
    this.#told.push(`${name}: ${first.split("\n")[0].slice(0, 160)}`);
  }

  /** Fails with everything that ended otherwise. */
  check(): void {
    expect(this.#told).toEqual([]);
    expect(this.refused).toBeGreaterThan(0);
  }
}

/** Calls a function as JavaScript may. */
export const loosely = (call: unknown, ...args: unknown[]): unknown =>
  (call as (...given: unknown[]) => unknown)(...args);

/** Calls a method as JavaScript may. */
export const method = (object: object, name: string, ...args: unknown[]): unknown =>
  (object as Record<string, (...given: unknown[]) => unknown>)[name](...args);
