// Writes docs/operators.md from the declarations: what insitu has, from which opset, with which types and effects.
// `node scripts/operator-table.mjs` after a build; the tests check that the file is up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const path = fileURLToPath(new URL("../docs/operators.md", import.meta.url));

const effectText = (effects) =>
  Object.entries(effects)
    .map(([output, effect]) => `${output}: ${effect.kind}(${[effect.of].flat().join(", ")})`)
    .join("; ");

const typesText = (types) => {
  const all = [...new Set(Object.values(types).flat())];
  return all.length > 14 ? `${all.length} types` : all.join(", ");
};

/** The page's text. */
export function operatorTable(operators) {
  const byDomain = Map.groupBy?.(operators, (op) => op.domain) ?? new Map();
  if (byDomain.size === 0)
    for (const op of operators) byDomain.set(op.domain, [...(byDomain.get(op.domain) ?? []), op]);
  const lines = [
    "# Operators",
    "",
    "Generated from the declarations by `node scripts/operator-table.mjs`. A row holds from its opset until the next row of the same name.",
    "",
  ];
  for (const [domain, list] of [...byDomain].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const names = new Set(list.map((op) => op.name));
    lines.push(
      `## ${domain === "" ? "ai.onnx" : domain}: ${names.size} operators`,
      "",
      "| operator | since opset | types | effects |",
      "|---|---|---|---|",
    );
    for (const op of list.toSorted((a, b) => (a.name === b.name ? a.since - b.since : a.name < b.name ? -1 : 1))) {
      lines.push(`| ${op.name} | ${op.since} | ${typesText(op.types)} | ${effectText(op.effects)} |`);
    }
    lines.push("");
  }
  return lines.join("\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { operators } = await import("../dist/ops/index.js");
  const text = operatorTable(operators.all);
  if (readFileSync(path, { encoding: "utf8", flag: "a+" }) !== text) writeFileSync(path, text);
}
