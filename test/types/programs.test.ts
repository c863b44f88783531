// Small programs as they are written for onnxruntime-common, -node and -web, compiled against insitu's built types with nothing but their
// import changed, and against onnxruntime's own where they are installed: what those types do not take is no program of theirs.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { soak } from "../support/soak.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = fileURLToPath(new URL("programs", import.meta.url));
const names = readdirSync(folder);
const peers = join(root, "peers/node_modules");

/** Programs that do not compile, and why. */
const exceptions: Readonly<Record<string, string>> = {
  "element-types.ts":
    "insitu has more element types (bfloat16, float8, complex, …), so that a table of onnxruntime's is not complete",
};

const place = mkdtempSync(join(tmpdir(), "insitu-types-"));
afterAll(() => rmSync(place, { recursive: true }));

/** The programs that a compiler complains about, with its first words. */
function complaints(from: string | undefined, module: "nodenext" | "preserve"): Record<string, string> {
  const project = join(place, `${from === undefined ? "own" : from.replace("/", "-")}-${module}`);
  mkdirSync(join(project, "node_modules"), { recursive: true });
  writeFileSync(join(project, "package.json"), JSON.stringify({ type: "module" }));
  if (from === undefined)
    for (const name of ["common", "node", "web"])
      symlinkSync(join(peers, `onnxruntime-${name}`), join(project, `node_modules/onnxruntime-${name}`));
  else symlinkSync(root, join(project, "node_modules/insitu"));
  for (const name of names) {
    const text = readFileSync(join(folder, name), "utf8");
    writeFileSync(join(project, name), from === undefined ? text : text.replace(/"onnxruntime-\w+"/, `"${from}"`));
  }
  const strict = "--noEmit --strict --target es2024 --lib esnext,dom --types node --typeRoots";
  const resolution = module === "preserve" ? ["--moduleResolution", "bundler"] : [];
  const options = [...strict.split(" "), join(root, "node_modules/@types"), "--module", module, ...resolution];
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const { stdout } = spawnSync(process.execPath, [compiler, ...options, ...names], { cwd: project, encoding: "utf8" });
  const found: Record<string, string> = {};
  for (const [, name, words] of stdout.matchAll(/^([^\s(]+)\(\d+,\d+\): error (.*)$/gm)) found[name] ??= words;
  if (Object.keys(found).length === 0) expect(stdout).toBe("");
  return found;
}

test("there are enough of them", () => {
  expect(names.length).toBeGreaterThanOrEqual(18);
  expect(Object.keys(exceptions).length).toBeLessThanOrEqual(1);
});

test.each([
  ["nodenext", "insitu"],
  ["preserve", "insitu/onnxruntime"],
] as const)("they compile with the import changed: %s, %s", (module, from) => {
  const found = complaints(from, module);
  expect(Object.keys(found).toSorted(), JSON.stringify(found, null, 1)).toEqual(Object.keys(exceptions));
});

test.runIf(soak && existsSync(join(peers, "onnxruntime-web")))("they are programs of onnxruntime's", () => {
  expect(complaints(undefined, "nodenext")).toEqual({});
});
