// The programs of docs/generate.md run: each block on its own, against the built package.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

const page = readFileSync(new URL("../../docs/generate.md", import.meta.url), "utf8");
const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
const entry = new URL("../../dist/index.node.js", import.meta.url).href;
const folder = mkdtempSync(join(tmpdir(), "insitu-docs-"));
afterAll(() => rmSync(folder, { recursive: true }));

test.each(blocks.map((code, index) => [index + 1, code] as const))("block %i", (index, code) => {
  const path = join(folder, `block${index}.mjs`);
  writeFileSync(path, code.replaceAll('"insitu"', JSON.stringify(entry)));
  expect(execFileSync(process.execPath, [path], { encoding: "utf8" })).not.toBe("");
});
