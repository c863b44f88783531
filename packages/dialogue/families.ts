/** The families that are known, in the order in which templates are asked whether they are theirs: those with marks of their own first. */
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
export const familyNames: readonly string[] = families.map(({ name }) => name);

/** The family of a template; undefined where none knows it. */
export const familyOf = (template: TemplateView): Family | undefined =>
  families.find((family) => family.matches(template));

/** A family by its name. */
export const familyNamed = (name: string): Family | undefined => families.find((family) => family.name === name);
