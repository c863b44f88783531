// The command line in one file, as a machine without npm runs it.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { Report } from "../../tools/bench/report.js";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

const bundled = (folder: string, ...entries: string[]): void => {
  execFileSync(process.execPath, [join(root, "scripts/bare/bundle.mjs"), folder, ...entries], { cwd: root });
};

test("a bundle of the command line runs away from its packages", () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bare-"));
  try {
    bundled(folder, "tools/cli/main.ts");
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

test.skipIf(!soak)(
  "with the process of its models beside it, it measures them in a folder that has nothing else",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "insitu-bare-"));
    try {
      bundled(folder, "tools/cli/main.ts", "tools/bench/models/insitu-process.ts");
      copyFileSync(join(root, "package.json"), join(folder, "package.json"));
      const only = ["--alone", "--quick", "--repeats", "1", "--only", "heads: one token at context 24"];
      const args = ["bench", "models", "--backend", "reference", ...only, "--json"];
      const report = JSON.parse(
        execFileSync(process.execPath, [join(folder, "main.mjs"), ...args], { cwd: folder, encoding: "utf8" }),
      ) as Report;
      const [group] = report.loads[0].groups;
      expect(group.contestants.map(({ name, problem }) => [name, problem])).toEqual([["insitu on reference", null]]);
      expect(group.contestants[0].figures["tokens a second"]).toBeGreaterThan(0);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
