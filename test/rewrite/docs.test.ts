// docs/rewrite.md: its table and picture are there. Its programs are run by test/docs.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const docs = new URL("../../docs/", import.meta.url);
const page = readFileSync(new URL("rewrite.md", docs), "utf8");

test("the table and the picture tell of contexts from 256 to 8192", () => {
  const rows = page.split("\n").filter((line) => /^\| \d+ \|/.test(line));
  expect(rows.map((row) => Number(row.split("|")[1]))).toEqual([256, 512, 1024, 2048, 4096, 8192]);
  const picture = readFileSync(new URL("rewrite-cost.svg", docs), "utf8");
  for (const name of ["original, insitu", "original, onnxruntime-node", "rewritten, insitu", "without its attentions"])
    expect(picture).toContain(name);
});
