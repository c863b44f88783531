// Fills the tables and the picture of docs/studies/tensorscatter-versus-scatternd.md from one report:
//   npx insitu bench scatter --json > report.json && node scripts/scatter-page.mjs report.json
// Text between `<!-- name -->` and `<!-- end -->` is replaced; the sentences around it are written by hand and hold for every run.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { reportSvg } from "../dist/tools/bench/chart.js";
import { timeText } from "../dist/tools/bench/table.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = `${root}docs/studies/tensorscatter-versus-scatternd.md`;

/** What the page calls the forms. */
const forms = {
  TensorScatter: "TensorScatter",
  ScatterND: "ScatterND",
  "ScatterND on rows": "dense rows",
  "ScatterND on rows, indices made in the graph": "dense rows, indices in the graph",
  "ScatterND, cache declared as rows": "dense rows, cache declared as rows",
  Concat: "Concat",
};
const columns = ["one token, in place", "one token, copied", "512 tokens, in place", "512 tokens, copied"];

const row = (cells) => `| ${cells.join(" | ")} |`;
const tableOf = (titles, rows) =>
  [row(titles), row(titles.map((_, at) => (at === 0 ? "---" : "---:"))), ...rows.map(row)].join("\n");

/** The tables by name. */
function tablesOf({ loads, machine, versions, backend, command }) {
  const { groups } = loads.find(({ name }) => name === "scatter");
  const contestantsOf = (start) => groups.find(({ name }) => name.startsWith(start)).contestants;
  const find = (group, form) => contestantsOf(group).find(({ name }) => name === form);
  const byForm = (runtime, time) =>
    tableOf(
      ["form", ...columns],
      Object.entries(forms).map(([form, label]) => [
        label,
        ...columns.map((column) => {
          const contestant = find(`${column}, ${runtime}`, form);
          return contestant === undefined ? "–" : timeText(contestant[time]);
        }),
      ]),
    );
  return {
    kernels: byForm("onnxruntime-node", "kernelMs"),
    source: [
      `\`${command}\` with ${Object.entries(versions)
        .map(([name, version]) => `${name} ${version}${name === "insitu" ? ` (${backend})` : ""}`)
        .join(", ")};`,
      `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`,
    ].join("\n"),
  };
}

const report = JSON.parse(readFileSync(process.argv[2], "utf8"));
const tables = tablesOf(report);
const filled = readFileSync(page, "utf8").replace(/(<!-- (\w+) -->\n)[^]*?(\n<!-- end -->)/g, (_, start, name, end) => {
  if (tables[name] === undefined) throw new Error(`${page} asks for "${name}", which is no table`);
  return `${start}\n${tables[name]}\n${end}`;
});
writeFileSync(page, filled);
writeFileSync(`${root}docs/img/tensorscatter-versus-scatternd.svg`, reportSvg(report));
