/** Two files of kernels as kernels/ has them, what the build writes from them, and mistakes in them with the refusals they meet. */

export const fill = `/** Rows of one number. */
import { shareStart } from "./share";

/** Fills rows. */
@unmanaged
export class Fill {
  target: usize; // [rows]
  rows: i32;
  value: f32; // anything
}

/**
 * How rows are filled.
 * @codes fillMode FILL_
 */
const FILL_ALL: i32 = 0;
export const FILL_EVERY_OTHER: i32 = ODD; // those with an odd number

export const ODD: i32 = 1;

/** One part of the rows. */
export function fill(job: Fill, part: i32, parts: i32, scratch: usize): void {
  for (let row = part; row < job.rows; row += parts) store<f32>(job.target + (row << 2), job.value);
}
`;

export const weigh = `/** The same with weights. */
import { Fill } from "./fill";

/**
 * Fills rows,
 * weighed.
 */
@unmanaged
export class Weigh extends Fill {
  weights: usize;
}

/** The same, weighed. */
export function weigh(job: Weigh, part: i32, parts: i32, scratch: usize): void {
  store<f32>(scratch, job.value);
}

const LANES: i32 = 1 << 2;

/** A row. */
export function weighScratch(job: Weigh): usize {
  if (!job.weights) return 0;
  const lanes = (job.rows + LANES - 1) / LANES;
  return lineBytes(job) * max(lanes, 2) + (<usize>lanes % 3 << 4);
}

/** Bytes of a line. */
// @ts-ignore: decorator
@inline
function lineBytes(job: Fill): usize {
  return job.rows == 1 || job.target != 0 ? ((job.rows >> 1) + 3) & ~3 : 8;
}

/**
 * True for long rows.
 * @host
 */
export function isLong(rows: i32, least: i32): bool {
  return rows > least - (rows - least);
}
`;

/** What the build writes from both. */
export const generated = {
  "kernels/index.gen.ts": 'export { fill } from "./fill";\nexport { weigh } from "./weigh";\n',
  "src/wasm-kernels/codes.gen.ts": `/** How rows are filled. */
export const fillMode = {
  all: 0,
  /** those with an odd number */
  everyOther: 1,
} as const;
`,
  "src/wasm-kernels/jobs.gen.ts": `/** Fills rows. */
export const fillJob = {
  /** [rows] */
  target: "pointer",
  rows: "count",
  /** anything */
  value: "number",
} as const;

/**
 * Fills rows,
 * weighed.
 */
export const weighJob = {
  /** [rows] */
  target: "pointer",
  rows: "count",
  /** anything */
  value: "number",
  weights: "pointer",
} as const;
`,
  "src/wasm-kernels/sizes.gen.ts": `/** The fields of a job that a size follows from. */
type Fields<Names extends string> = { readonly [Name in Names]: number };

/** A row. */
export function weighScratch(job: Fields<"weights" | "rows" | "target">): number {
  if (!job.weights) {
    return 0;
  }
  const lanes = Math.trunc((job.rows + 1 * 4 - 1) / (1 * 4));
  return lineBytes(job) * Math.max(lanes, 2) + lanes % 3 * 16;
}

/** Bytes of a line. */
function lineBytes(job: Fields<"rows" | "target">): number {
  return job.rows === 1 || job.target !== 0 ? ((Math.floor(job.rows / 2) + 3) & ~3) >>> 0 : 8;
}

/** True for long rows. */
export function isLong(rows: number, least: number): boolean {
  return rows > least - (rows - least);
}
`,
  "src/wasm-kernels/kernels.gen.ts": `import * as jobs from "./jobs.gen.js";
import type { JobValues } from "./jobs.js";
import * as sizes from "./sizes.gen.js";

/** Every kernel, with its job. */
export interface KernelJobs {
  /** One part of the rows. */
  readonly fill: typeof jobs.fillJob;
  /** The same, weighed. */
  readonly weigh: typeof jobs.weighJob;
}

/** The layout of every kernel's job. */
export const kernelJobs: KernelJobs = {
  fill: jobs.fillJob,
  weigh: jobs.weighJob,
};

/** Bytes of scratch that a job needs, for the kernels that need any. */
export const kernelScratch: {
  readonly [Name in keyof KernelJobs]?: (job: JobValues<KernelJobs[Name]>) => number;
} = {
  weigh: sizes.weighScratch,
};
`,
};

/** What is wrong, what is changed in fill.ts or weigh.ts for that → where the refusal stands and how it begins. */
export const mistakes: readonly (readonly [what: string, from: string, to: string, refusal: string])[] = [
  ["bad syntax", "rows: i32;", "rows i32;", "fill.ts:8: "],
  [
    "an unknown type",
    "rows: i32;",
    "rows: i64;",
    "fill.ts:8: rows: i64 of job Fill must be a field of usize, i32, f32",
  ],
  ["a starting value", "rows: i32;", "rows: i32 = 1;", "fill.ts:8: rows: i32 = 1 of job Fill must be a field"],
  ["a static field", "rows: i32;", "static rows: i32;", "fill.ts:8: static rows: i32 of job Fill must be"],
  ["a method", "rows: i32;", "rows(): i32 { return 1; }", "fill.ts:8: rows(): i32 { return 1; } of job Fill must be"],
  [
    "two fields on a line",
    "rows: i32;",
    "rows: i32; more: i32;",
    "fill.ts:8: behind rows: i32 only a comment may stand",
  ],
  ["a field twice", "rows: i32;", "target: i32;", "fill.ts:8: job Fill has a field target already"],
  ["a base's field again", "weights: usize;", "rows: i32;", "weigh.ts:10: job Weigh has a field rows already"],
  ["an unknown base", "extends Fill", "extends Empty", "weigh.ts:9: Empty is no class of kernels/"],
  ["a managed job", "@unmanaged\nexport", "export", "fill.ts:5: job Fill must be an @unmanaged"],
  ["a hidden job", "export class Fill", "class Fill", "fill.ts:5: job Fill must be an @unmanaged, exported class"],
  ["a job without a comment", "/** Fills rows. */\n", "", "fill.ts:4: job Fill must say what it is"],
  ["a kernel without one", "/** One part of the rows. */\n", "", "fill.ts:21: kernel fill must say what it is"],
  [
    "an address for a job",
    "(job: Fill,",
    "(at: usize,",
    "fill.ts:22: kernel fill must be (job: <its class>, part: i32",
  ],
  ["a number for a job", "(job: Fill,", "(job: usize,", "fill.ts:22: kernel fill must name the class of its job"],
  ["an unknown job", "(job: Fill,", "(job: Full,", "fill.ts:22: Full is no class of kernels/"],
  ["wide parts", "parts: i32,", "parts: i64,", "fill.ts:22: kernel fill must be (job: <its class>, part: i32"],
  ["a result", "usize): void", "usize): i32", "fill.ts:22: kernel fill must be (job: <its class>, part: i32"],
  [
    "a kernel twice",
    "function weigh(",
    "function fill(",
    "weigh.ts:14: there is a kernel fill already, in kernels/fill.ts",
  ],
  ["codes without a name", "@codes fillMode FILL_", "@codes", "fill.ts:16: @codes must be followed by the name"],
  [
    "a code of another type",
    "ALL: i32",
    "ALL: u8",
    "fill.ts:16: a code must be const FILL_NAME: i32, not const FILL_ALL: u8",
  ],
  ["a code without the prefix", "FILL_ALL:", "ALL:", "fill.ts:16: a code must be const FILL_NAME: i32, not const ALL"],
  ["a code that changes", "const FILL_ALL", "let FILL_ALL", "fill.ts:16: a code must be const FILL_NAME: i32, not let"],
  ["a code twice", "FILL_ALL: i32 = 0", "FILL_ALL: i32 = 1", "fill.ts:17: fillMode has all = 1 already"],
  ["a computed code", "i32 = ODD", "i32 = 2 + 3", "fill.ts:17: a code must be an integer or a constant, not 2 + 3"],
  [
    "a code by an unknown name",
    "i32 = ODD",
    "i32 = EVEN",
    "fill.ts:17: a code must be an integer or a constant, not EVEN",
  ],
  ["an unknown tag", "@codes", "@code", "fill.ts:16: @code means nothing here"],
  [
    "a tag in the wrong place",
    "/** Fills rows. */",
    "/**\n * Rows.\n * @codes no\n */",
    "fill.ts:8: @codes means nothing here",
  ],
  [
    "scratch that nobody asks for",
    "weighScratch",
    "weighBytes",
    "weigh.ts:14: kernel weigh uses scratch: weighScratch must",
  ],
  ["scratch that nobody uses", "store<f32>(scratch,", "store<f32>(0,", "weigh.ts:21: kernel weigh uses no scratch"],
  [
    "scratch of no kernel",
    "isLong(",
    "longScratch(",
    "weigh.ts:38: there is no kernel long that longScratch could speak of",
  ],
  [
    "scratch by another job",
    "Scratch(job: Weigh)",
    "Scratch(job: Rows)",
    "weigh.ts:21: weighScratch must be (job: Weigh or Fill): usize",
  ],
  [
    "scratch of another type",
    "Weigh): usize",
    "Weigh): i32",
    "weigh.ts:21: weighScratch must be (job: Weigh or Fill): usize",
  ],
  ["a hidden size", "export function isLong", "function isLong", "weigh.ts:38: isLong must be exported"],
  [
    "a size in floats",
    "least: i32): bool",
    "least: i32): f32",
    "weigh.ts:38: isLong must be a plain function that gives",
  ],
  ["two jobs", "rows: i32, least: i32)", "rows: Fill, least: Fill)", "weigh.ts:38: isLong must take one job, not two"],
  [
    "a field that is no whole number",
    "!job.weights",
    "!job.value",
    "weigh.ts:22: job.value is no whole number of a job",
  ],
  ["an unknown field", "!job.weights", "!job.heights", "weigh.ts:22: job.heights is no whole number of a job"],
  ["an unknown name", "(job.rows >> 1)", "(SHORT >> 1)", "weigh.ts:31: SHORT is no constant of kernels/"],
  ["a fraction", "max(lanes, 2)", "max(lanes, 2.5)", "weigh.ts:24: 2.5 is no whole number"],
  ["an unknown operator", "max(lanes, 2)", "(lanes ^ 2)", "weigh.ts:24: ^ is not understood by the host"],
  ["an unknown function", "max(lanes, 2)", "clz(lanes)", "weigh.ts:24: clz(lanes) is not understood by the host"],
  ["a look into memory", "max(lanes, 2)", "load<i32>(0)", "weigh.ts:24: load<i32>(0) is not understood by the host"],
  ["a variable", "const lanes", "let lanes", "weigh.ts:23: lanes must be a const"],
  ["a loop", "if (!job.weights)", "while (!job.weights)", "weigh.ts:22: while (!job.weights) return 0; is not"],
  ["a size that calls itself", "max(lanes, 2)", "weighScratch(job)", "weigh.ts:24: weighScratch calls itself"],
];
