// Fills the tables of a page from reports of `insitu bench --json`:
//   npx insitu bench attention --json > report.json && node scripts/fill-page.mjs docs/performance.md report.json
// Between `<!-- groups: <text> -->` and `<!-- end -->` goes a table of every group whose name contains the text; between
// `<!-- compared: <text> -->` and `<!-- end -->` one table of all of them, with a row for each group and a column for each contestant of the first; between
// `<!-- source -->` (or, for figures from a GPU, `<!-- source: gpu -->`) and `<!-- end -->` where the figures come from. What the reports
// say nothing of stays as it is. Sentences around them are written by hand and hold for every run.
import { readFileSync, writeFileSync } from "node:fs";
import { figureText, ratioText, timeText } from "../dist/tools/bench/table.js";

const [page, ...files] = process.argv.slice(2);
if (files.length === 0) throw new Error("usage: node scripts/fill-page.mjs <page.md> <report.json> ...");
const reports = files.map((file) => JSON.parse(readFileSync(file, "utf8")));
const groups = reports.flatMap(({ loads }) => loads.flatMap((load) => load.groups));

const row = (cells) => `| ${cells.join(" | ")} |`;

/** Several groups in one table: a row for each, a column for each contestant of the first. */
function comparisonOf(groups, text) {
  const nameIn = ({ contestants }, { name, runtime }) =>
    contestants.filter((each) => each.runtime === runtime).length > 1 ? name : runtime;
  const columns = groups[0].contestants.map((each) => nameIn(groups[0], each));
  const rows = groups.map((group) => [
    group.name
      .replace(text, "")
      .replaceAll(/\s*,(?:\s*,)*/g, ",")
      .replaceAll(/^[:,\s]+|[:,\s]+$/g, ""),
    ...columns.map((column) => {
      const found = group.contestants.find((each) => nameIn(group, each) === column);
      if (found === undefined) return "";
      return `${timeText(found.medianMs)}${found.ratio === null ? ", wrong result" : ""}`;
    }),
  ]);
  const titles = [text, ...columns];
  return [row(titles), row(titles.map((_, at) => (at === 0 ? "---" : "---:"))), ...rows.map(row)].join("\n");
}

/** One group: times, and how many times longer than its first. */
function tableOf({ name, contestants, failed }) {
  const kernels = contestants.some(({ kernelMs }) => kernelMs !== null);
  const figures = [...new Set(contestants.flatMap((each) => Object.keys(each.figures)))];
  const rows = contestants.map(({ name, medianMs, ratio, kernelMs, figures: own }) => [
    name,
    timeText(medianMs),
    ratio === null ? "wrong result" : ratioText(ratio),
    ...(kernels ? [kernelMs === null ? "" : timeText(kernelMs)] : []),
    ...figures.map((figure) => figureText(own[figure])),
  ]);
  const titles = [`${name}`, "median", "ratio", ...(kernels ? ["its kernels alone"] : []), ...figures];
  const failures = failed.map((each) => `\n${each.name}: ${each.problem}\n`);
  const table = [row(titles), row(titles.map((_, at) => (at === 0 ? "---" : "---:"))), ...rows.map(row)];
  return [...table, ...failures].join("\n");
}

function source(chosen) {
  const [{ versions, backend, threads, machine }] = chosen;
  const packages = Object.entries(versions).map(
    ([name, version]) => `${name} ${version}${name === "insitu" ? ` (${backend})` : ""}`,
  );
  return [
    `${chosen.map(({ command }) => `\`${command}\``).join(", ")} with ${packages.join(", ")}, ${threads} threads each;`,
    `${machine.gpu === null ? "" : `${machine.gpu}; `}${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`,
  ].join("\n");
}

const filled = readFileSync(page, "utf8").replace(
  /(<!-- (source|source: gpu|(?:groups|compared): ([^\n]+)) -->\n)[^]*?(\n<!-- end -->)/g,
  (before, start, what, text, end) => {
    if (text === undefined) {
      const chosen = reports.filter(({ machine }) => (machine.gpu !== null) === what.endsWith("gpu"));
      return chosen.length === 0 ? before : `${start}\n${source(chosen)}\n${end}`;
    }
    const found = groups.filter(({ name }) => name.includes(text));
    if (found.length === 0) {
      console.error(`${page} asks for groups with "${text}" in their name; the reports have none, and the table stays`);
      return before;
    }
    const tables = what.startsWith("compared") ? comparisonOf(found, text) : found.map(tableOf).join("\n\n");
    return `${start}\n${tables}\n${end}`;
  },
);
writeFileSync(page, filled);
