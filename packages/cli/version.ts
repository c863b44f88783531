/** insitu's own version, as its package.json has it. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** True for what asks for the version in the place of a command. */
export const asksForVersion = (typed: string | undefined): boolean =>
  typed !== undefined && ["--version", "-v", "-V", "version"].includes(typed);

/** The version; this file lies two folders below package.json, built and bundled. */
export function insituVersion(): string {
  const path = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "package.json");
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}
