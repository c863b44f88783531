// The lists that the build writes from kernels/: what a kernel's file gives, mistakes that are refused with their place, and all fields and
// sizes against what AssemblyScript itself makes of them.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { expect, test } from "vitest";
import { generatedFiles } from "../../scripts/kernel-index.mjs";
import { readSchema } from "../../scripts/kernel-schema.mjs";
import { kernelJobs } from "../../src/wasm-kernels/exports.js";
import type { JobLayout } from "../../src/wasm-kernels/jobs.js";
import * as layouts from "../../src/wasm-kernels/jobs.gen.js";
import * as sizeFunctions from "../../src/wasm-kernels/sizes.gen.js";
import { fill, generated, mistakes, weigh } from "./schema-sample.js";
import { Random } from "./workbench.js";

const folder = fileURLToPath(new URL("../../kernels/", import.meta.url));
const sources = Object.fromEntries(
  readdirSync(folder)
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".gen.ts"))
    .sort((a, b) => (a < b ? -1 : 1))
    .map((name) => [name, readFileSync(folder + name, "utf8")]),
);

test("a kernel's file is all that there is to write", () => {
  expect(generatedFiles({ "fill.ts": fill, "weigh.ts": weigh })).toEqual(generated);
});

/** What is read out of kernels/, as far as it is looked at here. */
interface Schema {
  readonly kernels: readonly Named[];
  readonly jobs: readonly (Named & { readonly isJob: boolean; readonly fields: readonly Field[] })[];
  readonly sizes: {
    readonly functions: readonly (Named & {
      readonly isExported?: boolean;
      readonly parameters: readonly { readonly type: string | undefined }[];
      readonly job: { readonly fields: readonly Field[] } | undefined;
    })[];
  };
}

interface Named {
  readonly name: string;
  readonly file: string;
}

interface Field {
  readonly name: string;
  readonly kind: string;
}

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
    [
      "entry.ts",
      "-o",
      "out.wasm",
      "--runtime",
      "stub",
      "--use",
      "abort=",
      "--initialMemory",
      "1",
      "--enable",
      "relaxed-simd,simd,threads",
    ],
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

test("sizes are what the compiled functions give", async () => {
  const { sizes }: Schema = readSchema(sources);
  const known = sizes.functions.filter(({ isExported }) => isExported);
  const lines = known.map(({ name, file }) => `export { ${name} } from "./${file.replace(/\.ts$/, "")}";`);
  const compiled = await compile(lines.join("\n"));
  const { buffer } = compiled["memory"] as WebAssembly.Memory;
  const written = sizeFunctions as Readonly<Record<string, (...given: readonly unknown[]) => number>>;
  const random = new Random(24);
  for (const { name, parameters, job } of known) {
    const [words, address] = [new Int32Array(buffer), 1024];
    for (let round = 0; round < 300; round++) {
      const values = Object.fromEntries((job?.fields ?? []).map((field) => [field.name, someValue(field, random)]));
      job?.fields.forEach((field, at) => (words[address / 4 + at] = values[field.name]));
      const numbers = parameters.map(() => random.integer(0, 100_000));
      const given = (ofJob: unknown): unknown[] => parameters.map(({ type }, at) => (type ? numbers[at] : ofJob));
      const expected = (compiled[name] as (...given: readonly unknown[]) => number)(...given(address));
      expect(written[name](...given(values)), `${name} of ${JSON.stringify(values)}`).toBe(expected);
    }
  }
  expect(known.length).toBeGreaterThan(20);
});

/** Something that a field may hold: small, so that nothing overflows. */
function someValue({ name, kind }: Field, random: Random): number {
  if (kind === "pointer") return random.pick([0, 4096]);
  if (name === "zerosType") return random.integer(-1, 2);
  if (name === "precision") return random.pick([8, 16]);
  if (name === "kvHeads") return random.pick([1, 2, 4]);
  if (name === "heads") return 4 * random.integer(1, 40);
  return random.pick([1, 2, 4, 8, 16, 20, 21, 32, 64, random.integer(1, 200)]);
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
