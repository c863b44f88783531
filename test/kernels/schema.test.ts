// The lists that the build writes from kernels/: what a kernel's file gives, mistakes that are refused with their place, and the fields
// of all jobs where AssemblyScript itself puts them.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { expect, test } from "vitest";
import { generatedFiles } from "../../scripts/kernel-index.mjs";
import { readSchema } from "../../scripts/kernel-schema.mjs";
import { kernelJobs } from "../../src/kernels/exports.js";
import type { JobLayout } from "../../src/kernels/jobs.js";
import * as layouts from "../../src/kernels/jobs.gen.js";

const folder = fileURLToPath(new URL("../../kernels/", import.meta.url));
const sources = Object.fromEntries(
  readdirSync(folder)
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".gen.ts"))
    .sort((a, b) => (a < b ? -1 : 1))
    .map((name) => [name, readFileSync(folder + name, "utf8")]),
);

const fill = `/** Rows of one number. */
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

const weigh = `/** The same with weights. */
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
}
`;

test("a kernel's file is all that there is to write", () => {
  expect(generatedFiles({ "fill.ts": fill, "weigh.ts": weigh })).toEqual({
    "kernels/index.gen.ts": 'export { fill } from "./fill";\nexport { weigh } from "./weigh";\n',
    "src/kernels/codes.gen.ts": `/** How rows are filled. */
export const fillMode = {
  all: 0,
  /** those with an odd number */
  everyOther: 1,
} as const;
`,
    "src/kernels/jobs.gen.ts": `/** Fills rows. */
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
    "src/kernels/kernels.gen.ts": `import { fillJob, weighJob } from "./jobs.gen.js";

/** Every kernel, with its job. */
export interface KernelJobs {
  /** One part of the rows. */
  readonly fill: typeof fillJob;
  /** The same, weighed. */
  readonly weigh: typeof weighJob;
}

/** The layout of every kernel's job. */
export const kernelJobs: KernelJobs = {
  fill: fillJob,
  weigh: weighJob,
};
`,
  });
});

/** What is read out of kernels/, as far as it is looked at here. */
interface Schema {
  readonly kernels: readonly { readonly name: string }[];
  readonly jobs: readonly {
    readonly name: string;
    readonly file: string;
    readonly isJob: boolean;
    readonly fields: readonly { readonly name: string }[];
  }[];
}

/** What is wrong, what is changed in fill.ts or weigh.ts for that → where the refusal stands and how it begins. */
const mistakes: readonly (readonly [what: string, from: string, to: string, refusal: string])[] = [
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
];

test.each(mistakes)("%s is refused with its place", (_, from, to, refusal) => {
  const texts = {
    "fill.ts": fill.replace(from, to),
    "weigh.ts": fill.includes(from) ? weigh : weigh.replace(from, to),
  };
  expect(texts).not.toEqual({ "fill.ts": fill, "weigh.ts": weigh });
  let message = "nothing was refused";
  try {
    generatedFiles(texts);
  } catch (error) {
    message = (error as Error).message;
  }
  expect(message.slice(0, refusal.length + 8)).toBe(`kernels/${refusal}`);
});

test("two jobs of one name are refused", () => {
  const again = fill.replace("function fill", "function again");
  expect(() => generatedFiles({ "fill.ts": fill, "again.ts": again })).toThrow(
    "kernels/again.ts:5: a class Fill goes to the host already, from kernels/fill.ts",
  );
});

/** Compiles text that imports from kernels/, and runs it on a memory of its own. */
async function compile(text: string): Promise<WebAssembly.Exports> {
  let binary: Uint8Array | undefined;
  let complaints = "";
  const { error } = await asc.main(
    ["entry.ts", "-o", "out.wasm", "--runtime", "stub", "--use", "abort=", "--enable", "relaxed-simd,simd,threads"],
    {
      readFile: (path: string) => (path === "entry.ts" ? text : (sources[path.replace(/^kernels\//, "")] ?? null)),
      writeFile: (_: string, contents: unknown) => void (binary = contents as Uint8Array),
      listFiles: () => [],
      stderr: { write: (chunk: unknown) => void (complaints += String(chunk)) },
    },
  );
  if (error || !binary) throw new Error(`${error?.message}: ${complaints}`);
  return new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(binary))).exports;
}

test("fields lie where the compiler puts them", async () => {
  const { jobs, kernels }: Schema = readSchema(sources);
  expect(kernels.map(({ name }) => name)).toEqual(Object.keys(kernelJobs));
  const lines = jobs.flatMap(({ name, file, fields }) => [
    `import { ${name} } from "./${file.replace(/\.ts$/, "")}";`,
    ...fields.map((field) => `export const ${name}_${field.name}: usize = offsetof<${name}>("${field.name}");`),
    `export const ${name}_: usize = offsetof<${name}>();`,
  ]);
  const offsets = (await compile(lines.join("\n"))) as Readonly<Record<string, WebAssembly.Global>>;
  const known = layouts as Readonly<Record<string, JobLayout>>;
  let fields = 0;
  for (const { name, isJob } of jobs) {
    const layout = known[name[0].toLowerCase() + name.slice(1) + (isJob ? "Job" : "")];
    for (const [at, field] of [...Object.keys(layout), ""].entries())
      expect(offsets[`${name}_${field}`].value, `${name}.${field}`).toBe(4 * at);
    fields += Object.keys(layout).length;
  }
  expect(fields).toBeGreaterThan(300);
});
