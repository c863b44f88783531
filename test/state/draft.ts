// A random model while it is made: what is fed, what there is to choose from, and the nodes so far.
import { type AttributeInput, initializer, node } from "../../src/onnx/build.js";
import type { ModelNode, ModelTensor } from "../../src/onnx/model.js";
import type { ElementType } from "../../src/tensor/element-type.js";
import { Chance } from "./chance.js";

/** Sizes that all models have in common. Rows are a few elements wide, but for models whose steps are to be worth sharing among threads. */
export const [batch, capacity] = [2, 4];
const [narrow, wide] = [3, 8192];

/** What an input is fed with. */
export type Role =
  | "elements"
  | "linear" // where rows start, so that they fit
  | "circular" // where rows start, wherever that is
  | "picks" // for ScatterElements along axis 1
  | "slots" // for ScatterND: sample and row
  | "flag"
  | "count"
  | "valid" // how many rows of a cache are valid
  | "ends" // GroupQueryAttention's seqlens_k and total_sequence_length
  | "total";

/** Sizes, and names of sizes that a run decides: `rows`, and the lengths of caches that grow. */
export type Dims = readonly (number | string)[];

export interface RandomInput {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: Dims;
  readonly role: Role;
  /** For a cache that starts empty: the axis it grows along. */
  readonly grows?: number;
}

/** A value that nodes can read. */
export interface Made {
  readonly name: string;
  readonly type: ElementType;
  readonly dims: Dims;
  readonly approximate?: boolean;
}

export const sameDims = (a: Dims, b: Dims): boolean => a.length === b.length && a.every((dim, at) => dim === b[at]);

export class Draft {
  readonly chance: Chance;
  readonly isWide: boolean;
  readonly width: number;
  /** The shape of a cache that has its capacity from the start. */
  readonly fixed: Dims;
  readonly caches: RandomInput[] = [];
  readonly feeds: RandomInput[] = [];
  readonly pool: Made[] = [];
  readonly nodes: ModelNode[] = [];
  readonly initializers: ModelTensor[] = [];
  /** Values that a cache's chain of writers ends in: likely outputs. */
  readonly ends = new Map<string, string>();
  /** Makes names different. */
  count = 0;
  microsoft = false;

  constructor(seed: number, isWide: boolean) {
    this.chance = new Chance(seed);
    this.isWide = isWide;
    this.width = isWide ? wide : narrow;
    this.fixed = [batch, capacity, this.width];
  }

  /** An input of the name, made where there is none. */
  feed(name: string, type: ElementType, dims: Dims, role: Role): string {
    if (!this.feeds.some((feed) => feed.name === name)) this.feeds.push({ name, type, dims, role });
    return name;
  }

  /** An int64 constant of the name, made where there is none. */
  constant(name: string, data: readonly number[]): string {
    if (!this.initializers.some((tensor) => tensor.name === name))
      this.initializers.push(initializer(name, "int64", data.map(BigInt), [data.length]));
    return name;
  }

  /** Adds a node and what it makes. */
  emit(op: string, inputs: string[], made: Omit<Made, "name">, attributes: Record<string, AttributeInput> = {}): Made {
    const name = `v${this.count++}`;
    this.nodes.push(node(op, inputs, [name], attributes, { name: `n_${name}` }));
    const entry = { name, ...made };
    this.pool.push(entry);
    return entry;
  }

  /** A value that fits, recent ones likelier, so that chains form. */
  pick(fits: (made: Made) => boolean): Made | undefined {
    const fitting = this.pool.filter((made) => made.approximate !== true && fits(made));
    if (fitting.length === 0) return undefined;
    return fitting[
      this.chance.of(0.5)
        ? this.chance.below(fitting.length)
        : Math.max(this.chance.below(fitting.length), this.chance.below(fitting.length))
    ];
  }

  /** A value of the shape of a cache. */
  cacheLike(fits: (made: Made) => boolean = () => true): Made | undefined {
    return this.pick((made) => sameDims(made.dims, this.fixed) && fits(made));
  }

  /** New rows of a type: fed, or read from somewhere. */
  rows(type: ElementType): Made {
    const found = this.chance.of(0.4)
      ? this.pick(
          (made) =>
            made.type === type &&
            made.dims.length === 3 &&
            made.dims[0] === batch &&
            made.dims[2] === this.width &&
            (made.dims[1] === 1 || made.dims[1] === "rows"),
        )
      : undefined;
    if (found !== undefined) return found;
    const dims = [batch, "rows", this.width];
    const name = this.feed(`rows_${type}_${this.chance.below(2)}`, type, dims, "elements");
    if (!this.pool.some((made) => made.name === name)) this.pool.push({ name, type, dims });
    return { name, type, dims };
  }

  /** The chains that ended in one value end in the other. */
  follow(from: Made, to: Made): void {
    for (const [cache, end] of this.ends) if (end === from.name) this.ends.set(cache, to.name);
  }

  /** An input that is named as a cache. */
  cache(name: string, type: ElementType, dims: Dims, grows?: number): void {
    this.caches.push({ name, type, dims, role: "elements", ...(grows === undefined ? {} : { grows }) });
    this.pool.push({ name, type, dims });
    this.ends.set(name, name);
  }
}
