// The README's table of operators says what the declarations say.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { supportTable, withSupportTable } from "../../scripts/support-table.mjs";
import { operators } from "../../src/ops/index.js";
import { wasmKernels } from "../../src/ops/wasm.js";

test("the README's table is up to date: node scripts/support-table.mjs writes it", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const table = supportTable(operators.all, wasmKernels);
  expect(withSupportTable(readme, table)).toBe(readme);
  expect(readme).toContain(table);
});
