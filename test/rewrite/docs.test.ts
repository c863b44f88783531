// docs/rewrite.md: its program runs against the built package, and its table and picture are there.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { bytesOf } from "./exports.js";

const docs = new URL("../../docs/", import.meta.url);
const page = readFileSync(new URL("rewrite.md", docs), "utf8");
const folder = mkdtempSync(join(tmpdir(), "insitu-docs-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("the program runs", () => {
  const [, program] = /```ts\n([^]*?)```/.exec(page)!;
  const built = new URL("../../dist/index.node.js", import.meta.url).href;
  writeFileSync(join(folder, "model.onnx"), bytesOf("llama_op24"));
  const told = "\nconsole.log(session.inputNames.join(), report.capacity, model.length > 1000);";
  writeFileSync(join(folder, "program.mjs"), program.replace('"insitu"', JSON.stringify(built)) + told);
  const { stdout, stderr } = spawnSync(process.execPath, ["program.mjs"], { cwd: folder, encoding: "utf8" });
  expect(stderr).toBe("");
  expect(stdout).toMatch(/write_indices,nonpad_kv_seqlen 4096 true/);
});

test("the table and the picture tell of contexts from 256 to 8192", () => {
  const rows = page.split("\n").filter((line) => /^\| \d+ \|/.test(line));
  expect(rows.map((row) => Number(row.split("|")[1]))).toEqual([256, 512, 1024, 2048, 4096, 8192]);
  const picture = readFileSync(new URL("rewrite-cost.svg", docs), "utf8");
  for (const name of ["original, insitu", "original, onnxruntime-node", "rewritten, insitu", "without its attentions"])
    expect(picture).toContain(name);
});
