// Contents for the inputs of random models: small numbers that arithmetic keeps exact, places that lie inside a cache.
import { allocateStorage, type ElementType, traitsOf } from "../../src/tensor/element-type.js";
import { writeNumbers } from "../../src/tensor/access.js";
import { Tensor } from "../../src/tensor/tensor.js";
import { elementCount, View } from "../../src/tensor/view.js";
import type { Chance } from "./chance.js";
import { batch, capacity, type RandomInput } from "./draft.js";

const integers = (type: "int64" | "int32", dims: readonly number[], values: readonly number[]): Tensor =>
  type === "int64"
    ? new Tensor(type, BigInt64Array.from(values, BigInt), dims)
    : new Tensor(type, Int32Array.from(values), dims);

/** Elements of any type. */
export function elements(type: ElementType, dims: readonly number[], chance: Chance): Tensor {
  const count = elementCount(dims);
  if (type === "string")
    return new Tensor(
      type,
      Array.from({ length: count }, () => `s${chance.below(1000)}`),
      dims,
    );
  const { kind, bits } = traitsOf(type);
  const storage = allocateStorage(type, count);
  if (kind === "complex" || bits < 8) {
    for (let at = 0; at < storage.length; at++) (storage as Float32Array)[at] = chance.below(256);
    if (bits < 8 && (count * bits) % 8 !== 0)
      (storage as Uint8Array)[storage.length - 1] &= (1 << ((count * bits) % 8)) - 1;
    return new Tensor(type, storage as never, dims);
  }
  const least = kind === "bool" ? 0 : type.startsWith("u") ? 1 : -20;
  const most = kind === "bool" ? 1 : 20;
  const values = Array.from({ length: count }, () => {
    const number = least + chance.below(most - least + 1);
    return kind === "bool" ? number : number || 7;
  });
  if (type === "int64") return integers(type, dims, values);
  const view = new View(type, dims, storage);
  writeNumbers(view, values);
  return Tensor.fromView(view);
}

/** Sizes of one run. */
export interface RunSizes {
  readonly rows: number;
  /** Rows of the caches that an attention with its own cache holds before the run. */
  readonly length: number;
}

/** What an input is fed with in one run. */
export function feedFor({ type, dims, role }: RandomInput, { rows, length }: RunSizes, chance: Chance): Tensor {
  const shape = dims.map((dim) => (dim === "rows" ? rows : Number(dim)));
  const each = (count: number, make: (at: number) => number): number[] =>
    Array.from({ length: count }, (_, at) => make(at));
  switch (role) {
    case "elements":
      return elements(type, shape, chance);
    case "linear":
      return integers(
        "int64",
        shape,
        each(batch, () => chance.below(capacity - rows + 1)),
      );
    case "circular":
      return integers(
        "int64",
        shape,
        each(batch, () => chance.below(3 * capacity)),
      );
    case "picks": {
      // Rows of one column differ: which of two writes to one place is last is nobody's promise.
      const start = chance.below(capacity);
      const width = shape[2];
      const values = each(
        batch * rows * width,
        (at) => (start + (Math.floor(at / width) % rows) + (at % width)) % capacity,
      );
      return integers("int64", shape, values);
    }
    case "slots": {
      const start = chance.below(batch * capacity);
      const places = each(rows, (at) => (start + 3 * at) % (batch * capacity));
      return integers(
        "int64",
        shape,
        places.flatMap((place) => [Math.floor(place / capacity), place % capacity]),
      );
    }
    case "flag":
      return new Tensor("bool", [chance.of(0.5)], shape);
    case "count":
      return integers("int64", shape, [chance.below(3)]);
    case "valid":
      return integers(
        "int64",
        shape,
        each(batch, () => 1 + chance.below(capacity)),
      );
    case "ends":
      return integers(
        "int32",
        shape,
        each(batch, () => length),
      );
    case "total":
      return integers("int32", shape, [length + 1]);
    default:
      return role satisfies never;
  }
}
