// insitu-web, the package for browsers alone, as npm packs it: small, complete, without the model and without anything of Node. What Vite makes
// of it is tried in test/browser/recipes.test.ts.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeWebPackage } from "../../scripts/web-package.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "insitu-web-package-"));
let packed: { readonly filename: string; readonly files: readonly { readonly path: string }[] };

interface Manifest {
  readonly version: string;
  readonly dependencies: object;
  readonly exports: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

const manifestAt = (path: string): Manifest => JSON.parse(readFileSync(join(path, "package.json"), "utf8")) as Manifest;

beforeAll(() => {
  writeWebPackage(folder);
  const { status, stdout, stderr } = spawnSync("npm", ["pack", "--json", "--ignore-scripts"], {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`npm pack failed: ${stderr}`);
  [packed] = JSON.parse(stdout) as (typeof packed)[];
});
afterAll(() => rmSync(folder, { recursive: true }));

test("it is small: no model, no command line, no server, no test data", () => {
  const { size } = statSync(join(folder, packed.filename));
  console.log(`insitu-web: ${(size / 1024).toFixed(0)} KiB packed, ${packed.files.length} files`);
  expect(size).toBeLessThan(1_950_000);
  const rooms = new Set(packed.files.map(({ path }) => /^dist\/([\w-]+)\//.exec(path)?.[1]));
  for (const room of ["cli", "serve", "bench", "conformance", "demo"]) expect(rooms).not.toContain(room);
  expect(
    packed.files.filter(({ path }) => /^models|\.onnx|cases\.|tsbuildinfo|[./]node\.js$|worker-node\.js$/.test(path)),
  ).toEqual([]);
});

test("it is complete, and nothing of it is for Node", () => {
  const names = new Set(packed.files.map(({ path }) => path));
  const missing: string[] = [];
  for (const path of [...names].filter((name) => /\.(js|d\.ts)$/.test(name))) {
    const text = readFileSync(join(folder, path), "utf8");
    for (const [, specifier] of text.matchAll(/(?:from|import|new URL\()\s*\(?\s*["']([^"']+)["']/g)) {
      if (specifier.startsWith("node:")) missing.push(`${path} imports ${specifier}`);
      if (!/^\.\.?\//.test(specifier)) continue;
      const named = posix.join(dirname(path), specifier);
      if (!names.has(path.endsWith(".d.ts") ? named.replace(/\.js$/, ".d.ts") : named))
        missing.push(`${path} names ${specifier}`);
    }
  }
  expect(missing).toEqual([]);
  for (const name of ["LICENSE", "NOTICE", "README.md", "dist/browser/LICENSES.txt", "dist/browser/worker.js"])
    expect(names).toContain(name);
});

test("it says what insitu says: version, dependencies, and the same files under the same names", async () => {
  const [web, whole] = [manifestAt(folder), manifestAt(root)];
  expect([web.version, web.dependencies]).toEqual([whole.version, whole.dependencies]);
  for (const [name, { types, default: file }] of Object.entries(web.exports))
    if (file !== undefined) expect([name, { types, default: file }]).toMatchObject([name, browserFileOf(whole, name)]);
  const { publint } = await import("publint");
  const { buffer } = new Uint8Array(readFileSync(join(folder, packed.filename)));
  expect((await publint({ strict: true, pack: { tarball: buffer } })).messages).toEqual([]);
});

const browserFileOf = ({ exports }: Manifest, name: string): object => {
  const { types, default: file } = exports[name];
  return { types, default: file };
};
