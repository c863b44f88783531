/**
 * The jobs that kernels read, as the host writes them, and the codes in them. The fields of each job, in memory order, every one 4 bytes
 * wide, stand beside its kernel in `kernels/`; the build writes them to jobs.gen.ts. Not the kernels themselves: those are in exports.ts.
 *
 * Units: a `pointer` is a byte address in the memory; a `count` is an integer; a `number` is a float32. Strides count elements
 * unless the field's comment says bytes. The innermost stride is 1 where no field gives it. Pointers need no alignment.
 * An optional pointer is 0 when absent.
 */

/** What a field holds. */
export type FieldKind = "pointer" | "count" | "number";

/** The fields of a job, in memory order. */
export type JobLayout = Readonly<Record<string, FieldKind>>;

/** A value for every field. */
export type JobValues<Layout extends JobLayout> = { readonly [Name in keyof Layout]: number };

/** Element types in jobs. Most kernels know the first three; masks are bool too, and `elements`, `reduce` and `scan` know all. */
export const elementCode = {
  float32: 0,
  float16: 1,
  bfloat16: 2,
  bool: 3,
  int8: 4,
  uint8: 5,
  int16: 6,
  uint16: 7,
  int32: 8,
  uint32: 9,
  int64: 10,
  uint64: 11,
  float64: 12,
} as const;

/** Types of pages in jobs: those of elementCode, and bytes with a scale for each token and head. */
export const pageCode = { float32: 0, float16: 1, bfloat16: 2, int8: 20, float8e4m3fn: 21, float8e5m2: 22 } as const;

/** Types of weights in jobs that have a scale, beside those of elementCode. */
export const levelCode = { int8: 4, uint8: 5, int4: 30, uint4: 31 } as const;

/** How a table lies: rows, or blocks of MatMulNBits. */
export const tableLayout = { rows: 0, blocks: 1 } as const;

/** Bytes that a job takes. */
export const jobBytes = (layout: JobLayout): number => 4 * Object.keys(layout).length;

/** Writes a job at a byte address that is a multiple of 4. `words` and `numbers` are views of the whole memory. */
export function writeJob<Layout extends JobLayout>(
  words: Int32Array,
  numbers: Float32Array,
  address: number,
  layout: Layout,
  values: JobValues<Layout>,
): void {
  let at = address >>> 2;
  for (const name of Object.keys(layout)) {
    if (layout[name] === "number") numbers[at++] = values[name];
    else words[at++] = values[name];
  }
}
