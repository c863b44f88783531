/** The catalogue: short names for models that public documentation names. What a text that is no path may mean. */
import { InsituError } from "#insitu/base/error.js";
import { isHubSpelling } from "#insitu/base/foreign-file.js";
import { meantName } from "#insitu/base/option-names.js";
import { entries } from "./catalogue.gen.js";
import type { CatalogueModel } from "./models-api.js";

/** Every model that has a short name. */
export const catalogue: readonly CatalogueModel[] = entries;

/** The model of a short name, or of a name on the hub, in whatever case it is written. */
export function modelNamed(name: string): CatalogueModel | undefined {
  const word = name.toLowerCase();
  return catalogue.find((model) => model.name === word) ?? catalogue.find((model) => model.repository === name);
}

/** The name on the hub that a short name, or a name on the hub, stands for. Throws, with the name that was meant, where it is neither. */
export function repositoryOf(name: string): string {
  const found = modelNamed(name);
  if (found !== undefined) return found.repository;
  if (isHubSpelling(name)) return name;
  throw new InsituError("invalid-argument", `there is no model "${name}": ${nameHint(name)}`);
}

/** The way out for a text that names no model. */
export function nameHint(name: string): string {
  const meant = meantName(
    name,
    catalogue.map((model) => model.name),
  );
  const few = catalogue.slice(0, 4).map((model) => model.name);
  return meant === undefined
    ? `a model is a folder, an ONNX file, owner/name on the hub, or a short name such as ${few.join(", ")} (insitu models lists them)`
    : `did you mean ${meant}? (insitu models lists short names; others are owner/name on the hub)`;
}
