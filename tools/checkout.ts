/** Where the checkout lies that these tools are part of: the same for sources and for what is built of them. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

function rootAbove(folder: string): string {
  const above = dirname(folder);
  return existsSync(join(folder, "package.json")) || above === folder ? folder : rootAbove(above);
}

/** The folder with the package's package.json. */
export const checkout: string = rootAbove(dirname(fileURLToPath(import.meta.url)));
