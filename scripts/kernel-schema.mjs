// What kernels/ says about itself: the kernels, by their signature, the fields of their jobs, the codes, the sizes. The build writes both sides' lists
// from this (kernel-index.mjs); nothing of it is kept by hand.
import { CommonFlags, NodeKind } from "assemblyscript";
import { readCodes } from "./kernel-codes.mjs";
import { readSizes } from "./kernel-sizes.mjs";
import { docOf, isExported, readSources, refuse, remarkOf, textOf, typeName } from "./kernel-source.mjs";

/** What a field's type holds: every field is 4 bytes wide. */
const kinds = { usize: "pointer", i32: "count", f32: "number" };

const parameterNames = "job, part, parts, scratch";
const signature = "(job: <its class>, part: i32, parts: i32, scratch: usize): void";

/** The schema of the sources { name: text } of kernels/. Throws, with file and line, at the first thing it does not understand. */
export function readSchema(texts) {
  const sources = readSources(texts);
  for (const node of sources.statements) checkTags(node);
  const jobs = new Map();
  const jobOf = (type) => {
    const name = typeName(type);
    const node = name && sources.declarationOf(type, name);
    if (node?.kind !== NodeKind.ClassDeclaration) refuse(type, `${textOf(type)} is no class of kernels/`);
    return jobOfClass(node);
  };
  const jobOfClass = (node) => {
    const known = jobs.get(node.name.text);
    if (known && known.node !== node)
      refuse(node, `a class ${known.name} goes to the host already, from ${known.file}`);
    if (!known) jobs.set(node.name.text, readJob(node, jobOf));
    return jobs.get(node.name.text);
  };
  const kernels = new Map();
  for (const node of sources.statements.filter(isKernel)) {
    const kernel = readKernel(node, jobOf);
    const known = kernels.get(kernel.name);
    if (known) refuse(node, `there is a kernel ${kernel.name} already, in ${known.file}`);
    kernels.set(kernel.name, kernel);
  }
  for (const node of sources.statements)
    if (node.kind === NodeKind.ClassDeclaration && tagOf(node, "host")) jobOfClass(node);
  const sizes = readSizes(sources, [...kernels.values()], jobOf);
  return { kernels: [...kernels.values()], jobs: [...jobs.values()], codes: readCodes(sources), sizes };
}

const fileOf = (node) => node.range.source.normalizedPath;

/** What a comment may say to the build: that a class or function goes to the host, that constants do. */
const tagged = { host: [NodeKind.ClassDeclaration, NodeKind.FunctionDeclaration], codes: [NodeKind.Variable] };

function checkTags(node) {
  for (const [tag] of docOf(node)?.tags ?? [])
    if (!tagged[tag]?.includes(node.kind)) refuse(node, `@${tag} means nothing here`);
}

const tagOf = (node, tag) => docOf(node)?.tags.find(([name]) => name === tag);

/** The lines of a declaration's comment, without which it is refused. */
function contractOf(node, what) {
  const text = docOf(node)?.text ?? [];
  if (text.length === 0) refuse(node, `${what} ${node.name.text} must say what it is, in a comment before it`);
  return text;
}

/** Exported functions with the parameters of a kernel are kernels. */
function isKernel(node) {
  if (node.kind !== NodeKind.FunctionDeclaration || !isExported(node) || node.typeParameters) return false;
  const names = node.signature.parameters.map(({ name }) => name.text);
  return names.length === 4 && names.slice(1).join() === parameterNames.split(", ").slice(1).join();
}

function readKernel(node, jobOf) {
  const { parameters, returnType } = node.signature;
  const [job, ...others] = parameters;
  const types = [...others.map(({ type }) => type), returnType].map(typeName).join(", ");
  if (job.name.text !== "job" || types !== "i32, i32, usize, void")
    refuse(node, `kernel ${node.name.text} must be ${signature}, not ${textOf(node.signature)}`);
  if (kinds[typeName(job.type)]) refuse(job, `kernel ${node.name.text} must name the class of its job`);
  return { name: node.name.text, file: fileOf(node), node, doc: contractOf(node, "kernel"), job: jobOf(job.type) };
}

function readJob(node, jobOf) {
  const name = node.name.text;
  const decorators = (node.decorators ?? []).map(textOf).join(" ");
  if (decorators !== "@unmanaged" || !isExported(node) || node.typeParameters || node.implementsTypes)
    refuse(node, `job ${name} must be an @unmanaged, exported class without type parameters`);
  const doc = contractOf(node, "job");
  const base = node.extendsType ? jobOf(node.extendsType) : undefined;
  const fields = [...(base?.fields ?? [])];
  for (const member of node.members) {
    const field = readField(member, name);
    if (fields.some((other) => other.name === field.name))
      refuse(member, `job ${name} has a field ${field.name} already`);
    fields.push(field);
  }
  if (fields.length === 0) refuse(node, `job ${name} has no fields`);
  return { name, file: fileOf(node), node, doc, base, fields, isJob: !tagOf(node, "host") };
}

function readField(member, job) {
  const plain =
    member.kind === NodeKind.FieldDeclaration &&
    (member.flags & ~CommonFlags.Instance) === 0 &&
    !member.decorators &&
    !member.initializer;
  const kind = plain && member.type && kinds[typeName(member.type)];
  if (!kind)
    refuse(
      member,
      `${textOf(member).split("\n")[0]} of job ${job} must be a field of ${Object.keys(kinds).join(", ")}`,
    );
  return { name: member.name.text, kind, remark: remarkOf(member) };
}
