// Writes what both sides of the kernels have in common from what kernels/ itself says: kernels/index.gen.ts, which AssemblyScript compiles,
// and for the host src/kernels/codes.gen.ts, jobs.gen.ts (the jobs' fields) and kernels.gen.ts (the kernels, each with its job).
import { readSchema } from "./kernel-schema.mjs";

/** The generated files by path, from the sources { name: text } of kernels/. */
export function generatedFiles(texts) {
  const { kernels, jobs, codes } = readSchema(texts);
  return {
    "kernels/index.gen.ts": indexText(kernels),
    "src/kernels/codes.gen.ts": codes.map(codesText).join("\n"),
    "src/kernels/jobs.gen.ts": jobs.map(jobText).join("\n"),
    "src/kernels/kernels.gen.ts": kernelsText(kernels, jobs),
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

function kernelsText(kernels, jobs) {
  const layouts = new Map(jobs.map((job) => [job.name, layoutName(job)]));
  const used = [...new Set(kernels.map(({ job }) => layouts.get(job)))];
  return [
    `import { ${used.join(", ")} } from "./jobs.gen.js";\n\n`,
    "/** Every kernel, with its job. */\nexport interface KernelJobs {\n",
    ...kernels.map(({ name, doc, job }) => `${comment(doc, "  ")}  readonly ${name}: typeof ${layouts.get(job)};\n`),
    "}\n\n/** The layout of every kernel's job. */\nexport const kernelJobs: KernelJobs = {\n",
    ...kernels.map(({ name, job }) => `  ${name}: ${layouts.get(job)},\n`),
    "};\n",
  ].join("");
}
