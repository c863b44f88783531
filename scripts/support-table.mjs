// Writes the README's table of operators from the declarations: how many there are, which write a cache in place, which have a fast path.
// `node scripts/support-table.mjs` after a build; the tests check that the table is up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const path = fileURLToPath(new URL("../README.md", import.meta.url));
const place = /(<!-- support -->\n)[^]*?(<!-- end -->)/;

/** The table's text. `operators` are declarations, `kernels` fast paths by declaration. */
export function supportTable(operators, kernels) {
  const byDomain = new Map();
  for (const op of operators) byDomain.set(op.domain, (byDomain.get(op.domain) ?? new Map()).set(op.name, op));
  const rows = [...byDomain]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([domain, ops]) => {
      const updating = [...ops.values()].filter(({ effects }) =>
        Object.values(effects).some(({ kind }) => kind === "update"),
      );
      const fast = new Set([...kernels.keys()].flatMap((op) => (op.domain === domain ? [op.name] : [])));
      return `| ${domain === "" ? "ai.onnx" : domain} | ${ops.size} | ${fast.size} | ${updating.map(({ name }) => name).join(", ")} |`;
    });
  return [
    "| domain | operators | with kernels on wasm | that write a cache in place |",
    "|---|---:|---:|---|",
    ...rows,
    "",
  ].join("\n");
}

/** A page with the table in its place. */
export const withSupportTable = (page, table) => page.replace(place, (_, start, end) => `${start}\n${table}\n${end}`);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { operators } = await import("../dist/ops/index.js");
  const { wasmKernels } = await import("../dist/ops/wasm.js");
  writeFileSync(path, withSupportTable(readFileSync(path, "utf8"), supportTable(operators.all, wasmKernels)));
}
