// A folder for what the suites of one test run share, such as the packed package: made before the first of them, taken away after the last.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Called by vitest in the process that starts the suites, which inherit its environment. */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "insitu-test-"));
  process.env["INSITU_TEST_FOLDER"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
