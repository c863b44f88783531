/**
 * The families that are known, in the order in which templates are asked whether they are theirs: those with marks of their own first. Loaded with a
 * model that has a template, or that is given a family: pages with another fetch none of them.
 */
import { InsituError } from "#insitu/base/error.js";
import type { ToolFormat } from "#insitu/base/known-names.js";
import type { Family, TemplateView } from "./family.js";
import { deepseek } from "./families/deepseek.js";
import { functionGemma, gemma } from "./families/gemma.js";
import { glm } from "./families/glm.js";
import { granite } from "./families/granite.js";
import { harmony } from "./families/harmony.js";
import { hermes } from "./families/hermes.js";
import { lfm } from "./families/lfm.js";
import { llama } from "./families/llama.js";
import { mistral } from "./families/mistral.js";
import { phi } from "./families/phi.js";
import { qwenCoder } from "./families/qwen-coder.js";

const families: readonly Family[] = [
  harmony,
  gemma,
  functionGemma,
  deepseek,
  glm,
  qwenCoder,
  mistral,
  granite,
  phi,
  lfm,
  hermes,
  llama,
];

/** Their names: what option `toolFormat` takes. */
export const familyNames: readonly ToolFormat[] = families.map(({ name }) => name);

/**
 * The family of a template, or the one that `format` names, where the template's own markers are not to decide. Undefined where none knows the template.
 * Throws for a name that is none.
 */
export function familyOf(template: TemplateView | undefined, format?: string): Family | undefined {
  if (format === undefined) return template && families.find((family) => family.matches(template));
  const named = families.find((family) => family.name === format);
  if (named !== undefined) return named;
  const names = familyNames.map((name) => `"${name}"`).join(", ");
  throw new InsituError("invalid-argument", `option toolFormat must be one of ${names}, got "${format}"`);
}
