// What this machine lacks of what suites ask for: noted for the closing line, which tells how much was not run for want of it.
import { appendFileSync } from "node:fs";
import { join } from "node:path";

/** Notes that a part is missing, and why or what to do. */
export function noteMissing(part: "GPU" | "Chromium" | "Redis" | "HAProxy", why: string): void {
  const folder = process.env["INSITU_TEST_FOLDER"];
  if (folder !== undefined) appendFileSync(join(folder, "missing"), `${part}\t${why.replaceAll("\n", " ")}\n`);
}
