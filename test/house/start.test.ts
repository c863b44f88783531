// What a newcomer types and meets: the command line's manners, the story, and the time to the first result.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readArchive } from "../../scripts/archive.mjs";
import { builtCommand } from "../support/built.js";
import { type Ended, insituHere } from "../support/command-line.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

function insitu(...args: string[]): Ended {
  return spawnSync(process.execPath, [builtCommand, ...args], { encoding: "utf8" });
}

test("every command has help, and unknown things are refused with one sentence", async () => {
  const overview = insitu("--help");
  expect(overview.status).toBe(0);
  for (const [, name] of overview.stdout.matchAll(/^ {2}(\w+) /gm)) {
    const help = await insituHere([name, "--help"]);
    expect([name, help.status]).toEqual([name, 0]);
    expect(help.stdout).toContain(`usage: insitu ${name}`);
    const unknown = await insituHere([name, "--no-such-option"]);
    expect(unknown.status).toBe(2);
    expect(unknown.stderr.trim().split("\n")).toHaveLength(1);
    expect(unknown.stderr).toContain("--no-such-option");
  }
  expect((await insituHere(["frobnicate"])).stderr).toMatch(/has no command "frobnicate"; there are /);
  const missing = insitu("inspect", "no-such-file.onnx");
  expect(missing.status).toBe(1);
  expect(missing.stderr).toMatch(/^insitu: no-such-file\.onnx cannot be opened/);
  expect((await insituHere(["inspect", "no-such-file.onnx", "--debug"])).stderr).toMatch(/\n {4}at /);
});

test("conformance closes with its counts and fails when a case fails", async () => {
  const folder = mkdtempSync(join(tmpdir(), "insitu-cases-"));
  const files = readArchive(join(root, "test/conformance/onnx-node-1.23.1.tar.br")) as Map<string, Uint8Array>;
  try {
    for (const [path, bytes] of files) {
      if (!/^test_(relu|abs|roialign_mode_max)\//.test(path)) continue;
      const parts = path.split("/").slice(0, -1);
      spawnSync("mkdir", ["-p", join(folder, ...parts)]);
      writeFileSync(join(folder, path), bytes);
    }
    const good = await insituHere(["conformance", folder]);
    expect(good.stdout.trim().split("\n").at(-1)).toBe("2 passed, 0 failed, 1 skipped");
    expect(good.status).toBe(0);
    writeFileSync(
      join(folder, "test_relu/test_data_set_0/output_0.pb"),
      files.get("test_relu/test_data_set_0/input_0.pb")!,
    );
    const bad = insitu("conformance", folder, "--filter", "relu");
    expect(bad.stdout.trim().split("\n").at(-1)).toBe("0 passed, 1 failed, 0 skipped");
    expect(bad.status).toBe(1);
    expect(JSON.parse((await insituHere(["conformance", folder, "--json"])).stdout)).toMatchObject({
      passed: 1,
      failed: 1,
      skipped: 1,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("npm start tells a story and sums up", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
  // With a seed: some tales end by themselves sooner.
  const start = `${scripts.start} --seed 8`;
  const { status, stdout, stderr } = spawnSync(start, { cwd: root, encoding: "utf8", shell: true });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^Once upon a time/);
  const [, made] = /(\d+) prompt tokens, (\d+) new/.exec(stderr)!.slice(1).map(Number);
  expect(made).toBeGreaterThanOrEqual(192);
  expect(stdout.trimEnd()).toMatch(/[.!?]['"]*$/);
  expect(stderr).toMatch(/tokens a second .* written in place .* a runtime that copies its caches would have moved /);
});
