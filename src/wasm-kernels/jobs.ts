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

/** A job's fields in memory order: their names, and which of them are floats. */
interface Fields {
  readonly names: readonly string[];
  readonly floats: readonly boolean[];
}

const fields = new WeakMap<JobLayout, Fields>();

function fieldsOf(layout: JobLayout): Fields {
  let found = fields.get(layout);
  if (found === undefined) {
    const names = Object.keys(layout);
    fields.set(layout, (found = { names, floats: names.map((name) => layout[name] === "number") }));
  }
  return found;
}

/** Bytes that a job takes. */
export const jobBytes = (layout: JobLayout): number => 4 * fieldsOf(layout).names.length;

/** Writes a job at a byte address that is a multiple of 4. `words` and `numbers` are views of the whole memory. */
export function writeJob<Layout extends JobLayout>(
  words: Int32Array,
  numbers: Float32Array,
  address: number,
  layout: Layout,
  values: JobValues<Layout>,
): void {
  const { names, floats } = fieldsOf(layout);
  const first = address >>> 2;
  for (let at = 0; at < names.length; at++) {
    if (floats[at]) numbers[first + at] = values[names[at]];
    else words[first + at] = values[names[at]];
  }
}
