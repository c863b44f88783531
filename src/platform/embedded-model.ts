/** Where the package keeps the model that it brings along. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { InsituError } from "../base/error.js";

/** The folder of the embedded model, in the hub's layout. Throws where it does not lie where the package has it: a bundle takes code along, and no weights. */
export function embeddedModel(): string {
  // A bundle of another format than ES modules has no import.meta.url.
  const here = import.meta.url === undefined ? undefined : dirname(fileURLToPath(import.meta.url));
  const folder = here === undefined ? undefined : join(here, "..", "..", "models", "embedded");
  if (folder !== undefined && existsSync(folder)) return folder;
  throw new InsituError(
    "invalid-model",
    `the embedded model is not here${folder === undefined ? "" : `: there is no ${folder}`}; a bundle does not carry it. Leave insitu out of the bundle (esbuild: --external:insitu), or copy node_modules/insitu/models/embedded and load it by its folder: CausalLM.load("folder")`,
  );
}
