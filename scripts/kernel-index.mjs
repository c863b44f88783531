// Writes what both sides of the kernels have in common from what kernels/ itself says: kernels/index.gen.ts, which AssemblyScript compiles,
// and for the host src/wasm-kernels/codes.gen.ts, jobs.gen.ts (the jobs' fields), sizes.gen.ts (what memory they
// ask for) and kernels.gen.ts (the kernels, each with its job and its scratch).
import { readSchema } from "./kernel-schema.mjs";

/** The generated files by path, from the sources { name: text } of kernels/. */
export function generatedFiles(texts) {
  const { kernels, jobs, codes, sizes } = readSchema(texts);
  return {
    "kernels/index.gen.ts": indexText(kernels),
    "src/wasm-kernels/codes.gen.ts": codes.map(codesText).join("\n"),
    "src/wasm-kernels/jobs.gen.ts": jobs.map(jobText).join("\n"),
    "src/wasm-kernels/sizes.gen.ts": sizesText(sizes),
    "src/wasm-kernels/kernels.gen.ts": kernelsText(kernels, sizes),
  };
}

/** A comment as it stood, indented. */
function comment(lines, indent = "") {
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}

const lowerFirst = (name) => name[0].toLowerCase() + name.slice(1);

/** What the layout of a class is called on the host. */
const layoutName = ({ name, isJob }) => lowerFirst(name) + (isJob ? "Job" : "");

/** An entry of an object, with its remark. */
const entry = (name, value, remark) => `${remark === undefined ? "" : `  /** ${remark} */\n`}  ${name}: ${value},\n`;

function codesText({ name, doc, codes }) {
  const entries = codes.map((code) => entry(code.name, code.value, code.remark));
  return `${comment(doc)}export const ${name} = {\n${entries.join("")}} as const;\n`;
}

function jobText(job) {
  const fields = job.fields.map(({ name, kind, remark }) => entry(name, `"${kind}"`, remark));
  return `${comment(job.doc)}export const ${layoutName(job)} = {\n${fields.join("")}} as const;\n`;
}

/** What AssemblyScript compiles: the kernels of each file. */
function indexText(kernels) {
  const files = new Map();
  for (const { name, file } of kernels) files.set(file, [...(files.get(file) ?? []), name]);
  const lines = [...files].map(([file, names]) => `export { ${names.join(", ")} } from "./${file.slice(8, -3)}";\n`);
  return lines.join("");
}

function sizesText({ functions }) {
  const fields =
    "/** The fields of a job that a size follows from. */\ntype Fields<Names extends string> = { readonly [Name in Names]: number };\n";
  return [fields, ...functions.map(sizeText)].join("\n");
}

function sizeText({ name, doc, parameters, fields, result, body, isExported }) {
  const job = `Fields<${fields.map((field) => `"${field}"`).join(" | ") || "never"}>`;
  const types = parameters.map((parameter) => `${parameter.name}: ${parameter.type ?? job}`);
  const head = `${isExported ? "export " : ""}function ${name}(${types.join(", ")}): ${result} {\n`;
  return `${doc.length > 0 ? comment(doc) : ""}${head}${body.map((line) => `${line}\n`).join("")}}\n`;
}

function kernelsText(kernels, { scratch }) {
  return [
    'import * as jobs from "./jobs.gen.js";\nimport type { JobValues } from "./jobs.js";\n',
    'import * as sizes from "./sizes.gen.js";\n\n',
    "/** Every kernel, with its job. */\nexport interface KernelJobs {\n",
    ...kernels.map(
      ({ name, doc, job }) => `${comment(doc, "  ")}  readonly ${name}: typeof jobs.${layoutName(job)};\n`,
    ),
    "}\n\n/** The layout of every kernel's job. */\nexport const kernelJobs: KernelJobs = {\n",
    ...kernels.map(({ name, job }) => `  ${name}: jobs.${layoutName(job)},\n`),
    "};\n\n/** Bytes of scratch that a job needs, for the kernels that need any. */\n",
    "export const kernelScratch: {\n",
    "  readonly [Name in keyof KernelJobs]?: (job: JobValues<KernelJobs[Name]>) => number;\n} = {\n",
    ...kernels.filter(({ name }) => scratch.has(name)).map(({ name }) => `  ${name}: sizes.${name}Scratch,\n`),
    "};\n",
  ].join("");
}
