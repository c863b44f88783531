// Sizes that both sides know: `<kernel>Scratch(job): usize` beside a kernel says how much scratch a job of it needs, and functions whose
// comment has @host say what else the host asks. They and what they call become TypeScript (kernel-arithmetic.mjs).
import { NodeKind } from "assemblyscript";
import { translate } from "./kernel-arithmetic.mjs";
import { docOf, isExported, refuse, textOf, typeName } from "./kernel-source.mjs";

/**
 * The functions that go to the host, { name, doc, parameters, result, body, isExported }, and the names of the kernels that need scratch.
 * `jobOf` reads the class that a type names.
 */
export function readSizes(sources, kernels, jobOf) {
  const functions = new Map();
  /** A function of kernels/, translated once. */
  const functionOf = (node, from) => {
    const name = node.name.text;
    const known = functions.get(name);
    if (known && known.node !== node) refuse(node, `a function ${name} goes to the host already, from ${known.file}`);
    if (known && !known.body) refuse(from, `${name} calls itself`);
    if (known) return known;
    const entry = { name, node, file: node.range.source.normalizedPath, doc: docOf(node)?.text ?? [] };
    functions.set(name, entry);
    return Object.assign(entry, translate(node, { sources, functionOf, jobOf }));
  };
  const scratch = new Map();
  for (const node of sources.statements.filter(({ kind }) => kind === NodeKind.FunctionDeclaration)) {
    const name = node.name.text;
    const kernel = kernels.find((other) => `${other.name}Scratch` === name);
    if (isExported(node) && name.endsWith("Scratch") && !kernel)
      refuse(node, `there is no kernel ${name.slice(0, -7)} that ${name} could speak of`);
    if (!kernel && !docOf(node)?.tags.some(([tag]) => tag === "host")) continue;
    if (!isExported(node)) refuse(node, `${name} must be exported`);
    if (kernel) checkSignature(node, kernel, jobOf);
    if (kernel) scratch.set(kernel.name, node);
    functionOf(node).isExported = true;
  }
  for (const kernel of kernels) checkUse(kernel, scratch.get(kernel.name));
  return { functions: [...functions.values()], scratch: new Set(scratch.keys()) };
}

/** The job may be the kernel's own or what that extends. */
function checkSignature(node, kernel, jobOf) {
  const { parameters, returnType } = node.signature;
  const classes = [];
  for (let job = kernel.job; job; job = job.base) classes.push(job.name);
  const type = parameters.length === 1 && parameters[0].name.text === "job" && typeName(parameters[0].type);
  if (!classes.includes(type) || typeName(returnType) !== "usize" || jobOf(parameters[0].type).name !== type)
    refuse(node, `${node.name.text} must be (job: ${classes.join(" or ")}): usize, not ${textOf(node.signature)}`);
}

/** A kernel that looks at its scratch says how much, and no other does. */
function checkUse({ name, node }, size) {
  const uses = /\bscratch\b/.test(textOf(node.body));
  if (uses && !size) refuse(node, `kernel ${name} uses scratch: ${name}Scratch must say how much`);
  if (!uses && size) refuse(size, `kernel ${name} uses no scratch`);
}
