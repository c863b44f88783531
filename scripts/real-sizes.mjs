// The table of real sizes, and its picture, from reports of `insitu bench models --json` (several, where models were measured apart):
//   npx insitu bench models --json > models.json && node scripts/real-sizes.mjs models.json docs/performance.md
// Between `<!-- real sizes -->` and `<!-- end -->` of each page goes the table, with where it comes from; docs/img/real-sizes.svg is drawn.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { figureText, timeText } from "../dist/bench/table.js";
import { picture } from "../dist/explain/draw-svg.js";

const files = process.argv.slice(2);
const pages = files.filter((file) => file.endsWith(".md"));
const reports = files.filter((file) => file.endsWith(".json")).map((file) => JSON.parse(readFileSync(file, "utf8")));
if (reports.length === 0) throw new Error("usage: node scripts/real-sizes.mjs <report.json> … [<page.md> …]");
const picturePath = fileURLToPath(new URL("../docs/img/real-sizes.svg", import.meta.url));

const groups = reports.flatMap(({ loads }) => loads.flatMap((load) => load.groups));
const models = [...new Set(groups.map(({ name }) => name.split(":")[0]))];
/** What a model's group of that kind found for a runtime; undefined where it was not measured. */
const found = (model, kind, name) =>
  groups
    .find((group) => group.name.startsWith(`${model}: ${kind}`))
    ?.contestants.find((contestant) => contestant.name === name);
const runtimesOf = (model) => [
  ...new Set(
    groups
      .filter(({ name }) => name.startsWith(`${model}:`))
      .flatMap(({ contestants }) => contestants.map(({ name }) => name)),
  ),
];

const rows = models.flatMap((model) =>
  runtimesOf(model).map((runtime) => {
    const [load, first, short, long] = [
      "loading",
      "the first token",
      "one token at context 512",
      "one token at context 4096",
    ].map((kind) => found(model, kind, runtime));
    const rate = (each) => (each === undefined ? "" : figureText(each.figures["tokens a second"]));
    const memory =
      short === undefined
        ? ""
        : `${figureText(short.figures["MiB at most"])} MiB (${short.figures["of the file"].toFixed(2)} ×)`;
    return [
      model,
      runtime,
      load === undefined ? "" : timeText(load.medianMs),
      first === undefined ? "" : timeText(first.medianMs),
      rate(short),
      rate(long),
      memory,
    ];
  }),
);
const titles = [
  "model",
  "runtime",
  "loading",
  "first token behind 512",
  "tokens a second at 512",
  "at 4096",
  "memory at most, at 512 (of the ONNX file)",
];
const row = (cells) => `| ${cells.join(" | ")} |`;

const threadsText = (threads) => (threads === 1 ? "one thread" : `${threads} threads`);

function source() {
  const [{ machine, threads }] = reports;
  const versions = Object.entries(Object.assign({}, ...reports.map((report) => report.versions)));
  const commands = reports.map(({ command }) => `\`${command}\``).join(", ");
  return `${commands}; ${versions.map(([name, version]) => `${name} ${version}`).join(", ")}, ${threadsText(threads)} each; ${machine.gpu === null ? "" : `${machine.gpu}; `}${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`;
}

const table = [row(titles), row(titles.map((_, at) => (at < 2 ? "---" : "---:"))), ...rows.map(row), "", source()].join(
  "\n",
);
for (const page of pages)
  writeFileSync(
    page,
    readFileSync(page, "utf8").replace(
      /(<!-- real sizes -->\n)[^]*?(\n<!-- end -->)/g,
      (_, start, end) => `${start}\n${table}\n${end}`,
    ),
  );
if (pages.length === 0) console.log(table);
writeFileSync(picturePath, drawn());

/** Tokens a second at context 512, a bar for each runtime, each model on a linear scale of its own that begins at zero. */
function drawn() {
  const [width, labels, room] = [820, 340, 380];
  const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
  const parts = [];
  let y = 46;
  for (const model of models) {
    const measured = runtimesOf(model).flatMap((runtime) => found(model, "one token at context 512", runtime) ?? []);
    if (measured.length === 0) continue;
    const most = Math.max(...measured.map(({ figures }) => figures["tokens a second"]));
    parts.push(`<text x="16" y="${y}" class="strong">${escaped(model)}</text>`);
    y += 10;
    for (const { name, runtime, figures } of measured) {
      const rate = figures["tokens a second"];
      const long = ((rate / most) * room).toFixed(1);
      const whose = runtime === "insitu" ? "ours" : "theirs";
      parts.push(
        `<text x="${labels - 8}" y="${y + 13}" class="end">${escaped(name)}</text>`,
        `<rect x="${labels}" y="${y}" width="${long}" height="17" class="${whose}"/>`,
        `<text x="${(labels + Number(long) + 6).toFixed(1)}" y="${y + 13}">${figureText(rate)}</text>`,
      );
      y += 23;
    }
    y += 26;
  }
  const title = `Tokens a second at context 512, weights of 4 bits, ${threadsText(reports[0].threads)} each; longer is faster`;
  parts.unshift(`<text x="16" y="22">${title}</text>`);
  return picture(width, y, title, parts, ".ours{fill:$ours}.theirs{fill:$theirs}");
}
