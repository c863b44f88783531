// The command line in one file, as a machine without npm runs it.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("a bundle of the command line runs away from its packages", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bare-"));
  try {
    execFileSync(process.execPath, [join(root, "scripts/bare/bundle.mjs"), folder, "src/cli/main.ts"], { cwd: root });
    const run = (...args: string[]): string =>
      execFileSync(process.execPath, [join(folder, "main.mjs"), ...args], { cwd: root, encoding: "utf8" });
    expect(run("bench", "--help")).toContain("device");
    const report = JSON.parse(
      run("bench", "device", "--backend", "reference", "--quick", "--alone", "--only", "one row", "--json"),
    ) as { readonly backend: string };
    expect(report.backend).toBe("reference");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
