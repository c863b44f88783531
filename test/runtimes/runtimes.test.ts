// Bun and Deno run the library and the server as Node does, to the letter: the same program under each.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const installed = join(root, "peers", "runtimes", "node_modules");
const hono = createRequire(import.meta.url).resolve("@hono/node-server");

interface Runtime {
  readonly name: string;
  /** Where the packages that npm picks for this system have the program. */
  readonly places: readonly string[];
  readonly args: readonly string[];
}

const system = `${process.platform}-${process.arch}`;
const runtimes: readonly Runtime[] = [
  {
    name: "Bun",
    places: [
      `@oven/bun-${system.replace("arm64", "aarch64").replace("win32", "windows")}/bin/bun${system.startsWith("win32") ? ".exe" : ""}`,
    ],
    args: [],
  },
  {
    name: "Deno",
    places: [`@deno/${system}-glibc/deno`, `@deno/${system}/deno`, `@deno/${system}/deno.exe`],
    // Without the flag Deno warns that a signal may be aborted once all is said, which the server does not mind.
    args: ["run", "-A", "--unstable-no-legacy-abort"],
  },
];

let project: string;

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "insitu-runtimes-"));
  mkdirSync(join(project, "node_modules"));
  symlinkSync(root, join(project, "node_modules", "insitu"), "junction");
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module", private: true }));
  copyFileSync(fileURLToPath(new URL("program.mjs", import.meta.url)), join(project, "program.mjs"));
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

/** What the program prints; it must complain of nothing. */
function run(command: string, args: readonly string[]): unknown {
  const { stdout, stderr } = spawnSync(command, [...args, "program.mjs", hono], { cwd: project, encoding: "utf8" });
  expect(stderr).toBe("");
  return JSON.parse(stdout) as unknown;
}

describe("one program", () => {
  let expected: unknown;
  test("under Node", () => {
    expected = run(process.execPath, []);
    const text = " had a great deal of money, and had a good heart. He was a";
    expect(expected).toEqual({
      generated: text,
      whole: text,
      streamed: text,
      beside: [text, text, text],
      statuses: [400, 400, 404],
      leftEarly: true,
      health: 503,
      finished: true,
    });
  });

  for (const { name, places, args } of runtimes) {
    const program = places.map((place) => join(installed, place)).find((place) => existsSync(place));
    const how = program === undefined ? " (skipped: npm --prefix peers/runtimes ci installs it)" : "";
    test.skipIf(program === undefined)(`under ${name}${how}`, () => {
      expect(run(program!, args)).toEqual(expected);
    });
  }
});
