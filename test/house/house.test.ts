// The house rules that tools can check: format, lint, types, generated files, file sizes. For the rooms see rules.test.ts.
// Tripwires among them: 400 lines a file, 92,000 in src/, and the order of the rooms in ARCHITECTURE.md.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { folderOf, rooms, tsconfig } from "../../scripts/rooms.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

function run(tool: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "node_modules", tool), ...args], {
    cwd: root,
    encoding: "utf8",
  });
  return status === 0 ? "" : `${stdout}${stderr}`;
}

function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else yield path;
  }
}

const packages = Object.keys(rooms)
  .map(folderOf)
  .filter((folder) => folder.startsWith("packages/"));
const sources = ["src", "tools", ...packages]
  .flatMap((folder) => [...filesBelow(join(root, folder))])
  .filter((path) => path.endsWith(".ts") && !/_pb\.ts$|\.gen\.ts$/.test(path));

test("everything is formatted", () => {
  expect(run("oxfmt/bin/oxfmt", "--check", "src", "packages", "tools", "test", "scripts", "site")).toBe("");
});

test("lint has no warnings", () => {
  expect(
    run("oxlint/bin/oxlint", "--type-aware", "--deny-warnings", "src", "packages", "tools", "test", "scripts", "site"),
  ).toBe("");
});

// Of the sources it reads the declarations that the build made of them, once it had found their types right.
test("types are right, in the tests too", () => {
  expect(run("typescript/bin/tsc", "-p", "test/tsconfig.json")).toBe("");
  expect(run("typescript/bin/tsc", "-p", "site/tsconfig.json")).toBe("");
});

test("each room's tsconfig says what scripts/rooms.mjs says", () => {
  for (const room of Object.keys(rooms))
    expect(readFileSync(join(root, folderOf(room), "tsconfig.json"), "utf8"), room).toBe(tsconfig(room));
});

test("ARCHITECTURE.md tells every room, in import order", () => {
  const table = /\| room \|.*\n\|-.*\n((?:\|.*\n)+)/.exec(readFileSync(join(root, "ARCHITECTURE.md"), "utf8"))![1];
  expect([...table.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name)).toEqual(Object.keys(rooms));
});

test("ARCHITECTURE.md has at most 2,400 words", () => {
  expect(readFileSync(join(root, "ARCHITECTURE.md"), "utf8").trim().split(/\s+/).length).toBeLessThanOrEqual(2400);
});

test("a source file says what it is in its first lines and stays below 400", () => {
  for (const path of sources) {
    const text = readFileSync(path, "utf8");
    const name = relative(root, path);
    if (!name.startsWith("tools/cases/"))
      expect(/^(#!.*\n)?\/\*\*/.test(text), `${name} begins with a comment`).toBe(true);
    expect(text.split("\n").length, name).toBeLessThanOrEqual(400);
  }
});

test("src/ has at most 92,000 lines, of whatever kind: merge what is alike before something is added", () => {
  const written = [...filesBelow(join(root, "src"))].filter((path) => !path.endsWith(".gen.ts"));
  const lines = written.reduce((sum, path) => sum + readFileSync(path, "utf8").split("\n").length - 1, 0);
  expect(lines).toBeGreaterThan(50_000);
  expect(lines).toBeLessThanOrEqual(92_000);
});

test("no list of operators is kept by hand", () => {
  const listed = readFileSync(join(root, "src/ops/index.gen.ts"), "utf8");
  for (const entry of readdirSync(join(root, "src/ops"), { withFileTypes: true })) {
    if (!entry.isDirectory() || !existsSync(join(root, "src/ops", entry.name, "op.ts"))) continue;
    expect(listed).toContain(`"./${entry.name}/op.js"`);
  }
  expect(execFileSync("git", ["check-ignore", "src/ops/index.gen.ts"], { cwd: root, encoding: "utf8" }).trim()).toBe(
    "src/ops/index.gen.ts",
  );
});

test("src/ops holds operators, what they share, and their lists", () => {
  const others = readdirSync(join(root, "src/ops")).filter((name) => !existsSync(join(root, "src/ops", name, "op.ts")));
  expect(others.filter((name) => !name.endsWith(".gen.ts")).toSorted()).toEqual([
    "index.ts",
    "late-operators.ts",
    "late.ts",
    "shared",
    "tsconfig.json",
    "wasm.ts",
    "webgpu.ts",
  ]);
});
