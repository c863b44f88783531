// The programs of docs/pages.md run: each block on its own, against the built package.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const page = readFileSync(new URL("../../docs/pages.md", import.meta.url), "utf8");
const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
const entry = new URL("../../dist/index.node.js", import.meta.url).href;
const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "insitu-pages-docs-"));
afterAll(() => rmSync(folder, { recursive: true }));

const said = [
  /\n.* [1-9]\d\n/s, // the second conversation reused the opening
  /^4096 12288 32 /,
  /^300 \d+ \[ 0, 1, 2, 3, \d+, \d+ \]\n$/,
  /^RepackCache on \d+ caches, in place, by repackRows\n$/,
];

test.each(blocks.map((code, index) => [index + 1, code] as const))("block %i", (index, code) => {
  const path = join(folder, `block${index}.mjs`);
  writeFileSync(path, code.replaceAll('from "insitu"', `from ${JSON.stringify(entry)}`));
  expect(execFileSync(process.execPath, [path], { encoding: "utf8", cwd: root })).toMatch(said[index - 1]);
});
