/**
 * The jobs that kernels read, as the host writes them, and the codes in them. The fields of each job, in memory order, every one 4 bytes
 * wide, and the codes stand beside their kernels in `kernels/`; the build writes them to jobs.gen.ts and codes.gen.ts. Not the kernels
 * themselves: those are in exports.ts.
 *
 * Units: a `pointer` is a byte address in the memory; a `count` is an integer; a `number` is a float32. Strides count elements
 * unless the field's comment says bytes. The innermost stride is 1 where no field gives it. Pointers need no alignment.
 * An optional pointer is 0 when absent.
 */
export * from "./codes.gen.js";
export * from "./jobs.gen.js";

/** What a field holds. */
type FieldKind = "pointer" | "count" | "number";

/** The fields of a job, in memory order. */
export type JobLayout = Readonly<Record<string, FieldKind>>;

/** A value for every field. */
export type JobValues<Layout extends JobLayout> = { readonly [Name in keyof Layout]: number };

const fields = new WeakMap<JobLayout, readonly string[]>();

/** The names of a job's fields, in memory order. */
function fieldsOf(layout: JobLayout): readonly string[] {
  let names = fields.get(layout);
  if (names === undefined) fields.set(layout, (names = Object.keys(layout)));
  return names;
}

/** Bytes that a job takes. */
export const jobBytes = (layout: JobLayout): number => 4 * fieldsOf(layout).length;

/** Writes a job at a byte address that is a multiple of 4. `words` and `numbers` are views of the whole memory. */
export function writeJob<Layout extends JobLayout>(
  words: Int32Array,
  numbers: Float32Array,
  address: number,
  layout: Layout,
  values: JobValues<Layout>,
): void {
  let at = address >>> 2;
  for (const name of fieldsOf(layout)) {
    if (layout[name] === "number") numbers[at++] = values[name];
    else words[at++] = values[name];
  }
}
