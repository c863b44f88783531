// What both sides of the kernels must agree on: the fields of jobs, the list of kernels, what a module imports.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { inflateSync } from "node:zlib";
import { expect, test } from "vitest";
import * as elementJobs from "../../src/kernels/element-jobs.js";
import * as plainJobs from "../../src/kernels/jobs.js";
import { kernelJobs, reservedBytes } from "../../src/kernels/exports.js";
import { relaxedModule, simdModule } from "../../src/kernels/modules.gen.js";
import "./workbench.js";

const jobs = { ...plainJobs, ...elementJobs };

const source = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../kernels/${name}.ts`, import.meta.url)), "utf8");

test.each([
  ["elementwise", jobs.operationCode],
  ["elements", jobs.elementsOperation],
  ["fold", jobs.foldOperation],
] as const)("kernels/%s.ts numbers the operators as src/kernels/jobs.ts does", (file, codes) => {
  const numbered = [...source(file).matchAll(/^const ([A-Z_]+): i32 = (\d+);$/gm)].map(([, name, code]) => [
    name.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    Number(code),
  ]);
  for (const [name, code] of Object.entries(codes)) expect(numbered).toContainEqual([name, code]);
});

test("the types and registers of kernels/ are those of src/kernels/jobs.ts", () => {
  const numbered = new Map(
    ["float-types", "element-types", "elements"].flatMap((file) =>
      [...source(file).matchAll(/^(?:export )?const ([A-Z0-9]+): i32 = (\d+);$/gm)].map(
        ([, name, code]) => [name.toLowerCase(), Number(code)] as const,
      ),
    ),
  );
  for (const [name, code] of [...Object.entries(jobs.elementCode), ...Object.entries(jobs.registerKind)])
    expect(numbered.get(name), name).toBe(code);
});

test("a module exports the kernels, imports the memory, holds no data and is small", () => {
  for (const text of [simdModule, relaxedModule]) {
    const deflated = Buffer.from(text, "base64");
    const bytes = inflateSync(deflated);
    const module = new WebAssembly.Module(bytes);
    const exported = WebAssembly.Module.exports(module);
    expect(
      exported
        .filter(({ kind }) => kind === "function")
        .map(({ name }) => name)
        .sort(),
    ).toEqual(Object.keys(kernelJobs).sort());
    expect(WebAssembly.Module.imports(module)).toEqual([{ module: "env", name: "memory", kind: "memory" }]);
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536, shared: true });
    void new WebAssembly.Instance(module, { env: { memory } });
    expect(new Uint8Array(memory.buffer).subarray(reservedBytes).every((byte) => byte === 0)).toBe(true);
    expect(bytes.length).toBeLessThan(135_000);
    expect(deflated.length).toBeLessThan(35_000);
  }
});
