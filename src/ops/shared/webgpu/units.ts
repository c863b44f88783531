/**
 * What one invocation of a moving kernel hands on, without looking at it: four words where elements lie together so far, a word, or elements
 * smaller than a word, as many as fill one. Shapes, strides and offsets are counted in these units from here on.
 */
import { type ElementType, traitsOf } from "../../../tensor/element-type.js";
import { joinDimensions, type Layout } from "../rules/layout.js";

/** A layout in units. */
export interface Units {
  readonly unit: "element" | "word" | "quad";
  /** Of a unit; below 32 for elements. */
  readonly bits: number;
  /** Dimensions of the output, outermost first. */
  readonly shape: readonly number[];
  /** The dimensions of each group that was given, as positions in `shape`. */
  readonly groups: readonly (readonly number[])[];
  /** [side][dimension] */
  readonly strides: readonly (readonly number[])[];
  /** One a side. */
  readonly offsets: readonly number[];
  /** The distances that were given. */
  readonly distances: readonly number[];
  /** Units in all. */
  readonly count: number;
}

/** True, or why elements of a type cannot be moved. */
export function movableType(type: ElementType): true | string {
  const { bits, kind } = traitsOf(type);
  if (kind === "string") return "strings stay on the host";
  return [8, 16, 32, 64].includes(bits) ? true : `${type} has no whole bytes, or too many`;
}

interface Given {
  readonly type: ElementType;
  /** The output's dimensions in groups, outermost first, with strides in every side that is read; only dimensions of one group are joined. */
  readonly groups: readonly Layout[];
  /** Where each side begins. */
  readonly offsets: readonly number[];
  /** Other distances in the sides, which must be whole units too. */
  readonly distances?: readonly number[];
}

/** The largest units that a layout, given in elements, can be counted in. */
export function unitsOf({ type, groups, offsets, distances = [] }: Given): Units {
  const { bits } = traitsOf(type);
  const wide = Math.max(1, bits / 32);
  let layouts = groups.map(({ shape, strides }) => ({ shape, strides: strides.map((own) => scaled(own, wide)) }));
  if (wide > 1) {
    const { shape, strides } = layouts.at(-1)!;
    layouts = layouts.with(-1, { shape: [...shape, wide], strides: strides.map((own) => [...own, 1]) });
  }
  let state: State = {
    layouts: layouts.map(({ shape, strides }) => joinDimensions(shape, strides)),
    offsets: scaled(offsets, wide),
    distances: scaled(distances, wide),
  };
  const perWord = Math.max(1, 32 / bits);
  const words = perWord === 1 ? state : inSteps(state, perWord);
  const quads = words && inSteps(words, 4);
  state = quads ?? words ?? state;
  let position = 0;
  const shape = state.layouts.flatMap((layout) => layout.shape);
  return {
    unit: quads ? "quad" : words ? "word" : "element",
    bits: quads ? 128 : words ? 32 : bits,
    shape,
    groups: state.layouts.map((layout) => layout.shape.map(() => position++)),
    strides: state.offsets.map((_, side) => state.layouts.flatMap(({ strides }) => strides[side])),
    offsets: state.offsets,
    distances: state.distances,
    count: shape.reduce((product, dim) => product * dim, 1),
  };
}

interface State {
  readonly layouts: readonly Layout[];
  readonly offsets: readonly number[];
  readonly distances: readonly number[];
}

const scaled = (numbers: readonly number[], by: number): readonly number[] => numbers.map((number) => number * by);

/** The same in units of `size`; undefined where these do not lie together everywhere. */
function inSteps({ layouts, offsets, distances }: State, size: number): State | undefined {
  const { shape, strides } = layouts.at(-1)!;
  const inner = shape.at(-1);
  if (inner === undefined || inner % size !== 0 || strides.some((own) => own.at(-1) !== 1)) return undefined;
  const others = [
    ...layouts.slice(0, -1).flatMap((layout) => layout.strides),
    ...strides.map((own) => own.slice(0, -1)),
  ];
  if ([...others.flat(), ...offsets, ...distances].some((number) => number % size !== 0)) return undefined;
  const divided = (numbers: readonly number[]): readonly number[] => scaled(numbers, 1 / size);
  return {
    layouts: layouts.map((layout, at) =>
      at < layouts.length - 1
        ? { shape: layout.shape, strides: layout.strides.map(divided) }
        : { shape: shape.with(-1, inner / size), strides: strides.map((own) => [...divided(own.slice(0, -1)), 1]) },
    ),
    offsets: divided(offsets),
    distances: divided(distances),
  };
}
