// Fills the table and the picture of docs/rewrite.md from one report:
//   npx insitu bench decode --only "as the context grows" --json > report.json && node scripts/rewrite-page.mjs report.json
// Text between `<!-- name -->` and `<!-- end -->` is replaced; the sentences around it are written by hand and hold for every run.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { contextCosts, contextSvg } from "../dist/tools/bench/context-chart.js";
import { ratioText, timeText } from "../dist/tools/bench/table.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = `${root}docs/rewrite.md`;
const row = (cells) => `| ${cells.join(" | ")} |`;

const report = JSON.parse(readFileSync(process.argv[2], "utf8"));
const costs = contextCosts(report);
if (costs.length === 0) throw new Error(`${process.argv[2]} holds no run of the decoder with Concat caches`);

const titles = [
  "context",
  "rewritten, insitu",
  "its attentions alone",
  "the rest",
  "original, insitu",
  "original, onnxruntime-node",
];
const growth = (of) => ratioText(of(costs.at(-1)) / of(costs[0]));
const columns = [
  ({ rewritten }) => rewritten,
  ({ attention }) => attention,
  ({ rest }) => rest,
  ({ original }) => original,
  ({ theirs }) => theirs,
];
const { machine, versions, backend, threads } = report;
const parts = {
  cost: [
    row(titles),
    row(titles.map(() => "---:")),
    ...costs.map((cost) =>
      row([cost.context, ...columns.map((of) => (of(cost) === undefined ? "–" : timeText(of(cost))))]),
    ),
    row([
      `${costs.at(-1).context} against ${costs[0].context}`,
      ...columns.map((of) => (of(costs[0]) === undefined ? "–" : growth(of))),
    ]),
  ].join("\n"),
  source: [
    `Medians of one interleaved run: ${Object.entries(versions)
      .map(([name, version]) => `${name} ${version}${name === "insitu" ? ` (${backend})` : ""}`)
      .join(", ")}, ${threads} threads each;`,
    `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`,
  ].join("\n"),
};
const filled = readFileSync(page, "utf8").replace(/(<!-- (\w+) -->\n)[^]*?(\n<!-- end -->)/g, (_, start, name, end) => {
  if (parts[name] === undefined) throw new Error(`${page} asks for "${name}", which is no part of it`);
  return `${start}\n${parts[name]}\n${end}`;
});
writeFileSync(page, filled);
writeFileSync(`${root}docs/rewrite-cost.svg`, contextSvg(report));
