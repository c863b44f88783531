/** Where the package keeps the model that it brings along. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the embedded model, in the hub's layout. */
export const embeddedModel: string = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "models", "embedded");
