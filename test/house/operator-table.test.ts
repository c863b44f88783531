// docs/operators.md says what the declarations say.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { operatorTable } from "../../scripts/operator-table.mjs";
import { operators } from "../../src/ops/index.js";

test("the table of operators is up to date: node scripts/operator-table.mjs writes it", () => {
  expect(readFileSync(new URL("../../docs/operators.md", import.meta.url), "utf8")).toBe(operatorTable(operators.all));
});

test("every declared operator has a case of its own or one in ONNX's suite", async () => {
  const modules = import.meta.glob<{ cases: readonly { op: string; domain?: string }[] }>("../../tools/cases/*.ts", {
    eager: true,
  });
  const covered = new Set(
    Object.values(modules).flatMap(({ cases }) => cases.map(({ op, domain = "" }) => `${domain}::${op}`)),
  );
  // Operators with subgraphs cannot be called by a plain case: their tests stand in test/ops.
  const withBodies = operators.all.filter((op) =>
    Object.values(op.attrs).some((attribute) => attribute.kind === "graph"),
  );
  for (const op of withBodies) covered.add(`${op.domain}::${op.name}`);
  expect(operators.all.map((op) => `${op.domain}::${op.name}`).filter((name) => !covered.has(name))).toEqual([]);
});
