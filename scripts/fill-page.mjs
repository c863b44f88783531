// Fills the tables of a page from one report of `insitu bench --json`:
//   npx insitu bench attention --json > report.json && node scripts/fill-page.mjs docs/fused-cache-write.md report.json
// Between `<!-- groups: <text> -->` and `<!-- end -->` goes a table of every group whose name contains the text; between
// `<!-- source -->` and `<!-- end -->` where the figures come from. Sentences around them are written by hand and hold for every run.
import { readFileSync, writeFileSync } from "node:fs";
import { ratioText, timeText } from "../dist/bench/table.js";

const [page, ...files] = process.argv.slice(2);
if (files.length === 0) throw new Error("usage: node scripts/fill-page.mjs <page.md> <report.json> ...");
const reports = files.map((file) => JSON.parse(readFileSync(file, "utf8")));
const groups = reports.flatMap(({ loads }) => loads.flatMap((load) => load.groups));

const row = (cells) => `| ${cells.join(" | ")} |`;

/** One group: times, and how many times longer than its first. */
function tableOf({ name, contestants }) {
  const kernels = contestants.some(({ kernelMs }) => kernelMs !== null);
  const rows = contestants.map(({ name, medianMs, lowerQuartileMs, upperQuartileMs, ratio, kernelMs }) => [
    name,
    timeText(medianMs),
    `${timeText(lowerQuartileMs)} to ${timeText(upperQuartileMs)}`,
    ratio === null ? "wrong result" : ratioText(ratio),
    ...(kernels ? [kernelMs === null ? "" : timeText(kernelMs)] : []),
  ]);
  const titles = [`${name}`, "median", "middle half", "ratio", ...(kernels ? ["its kernels alone"] : [])];
  return [row(titles), row(titles.map((_, at) => (at === 0 ? "---" : "---:"))), ...rows.map(row)].join("\n");
}

function source({ versions, backend, threads, machine }) {
  const packages = Object.entries(versions).map(
    ([name, version]) => `${name} ${version}${name === "insitu" ? ` (${backend})` : ""}`,
  );
  return [
    `${reports.map(({ command }) => `\`${command}\``).join(", ")} with ${packages.join(", ")}, ${threads} threads each;`,
    `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`,
  ].join("\n");
}

const filled = readFileSync(page, "utf8").replace(
  /(<!-- (source|groups: ([^\n]+)) -->\n)[^]*?(\n<!-- end -->)/g,
  (_, start, what, text, end) => {
    if (what === "source") return `${start}\n${source(reports[0])}\n${end}`;
    const found = groups.filter(({ name }) => name.includes(text));
    if (found.length === 0)
      throw new Error(`${page} asks for groups with "${text}" in their name; the report has none`);
    return `${start}\n${found.map(tableOf).join("\n\n")}\n${end}`;
  },
);
writeFileSync(page, filled);
