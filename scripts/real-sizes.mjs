// The tables of real sizes, and their pictures, from reports of `insitu bench models --json` (several, where models were measured apart):
//   npx insitu bench models --json > models.json && node scripts/real-sizes.mjs models.json docs/performance.md
// Between `<!-- real sizes -->` and `<!-- end -->` of each page goes the table of the processor's reports, between `<!-- real sizes: gpu -->` and
// `<!-- end -->` that of a GPU's (`--backend webgpu`), with where each comes from; docs/img/real-sizes.svg and real-sizes-gpu.svg are drawn. What there
// is no report of stays as it is. Without a page the tables are printed, and nothing is drawn. A folder, named with `/` at its end, takes the pictures
// in place of docs/img/.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { figureText, timeText } from "../dist/tools/bench/table.js";
import { picture } from "../dist/tools/pictures/draw-svg.js";

const files = process.argv.slice(2);
const pages = files.filter((file) => file.endsWith(".md"));
const pictures = files.find((file) => file.endsWith("/")) ?? fileURLToPath(new URL("../docs/img/", import.meta.url));
const all = files.filter((file) => file.endsWith(".json")).map((file) => JSON.parse(readFileSync(file, "utf8")));
if (all.length === 0) throw new Error("usage: node scripts/real-sizes.mjs <report.json> … [<page.md> …] [<folder>/]");

/** What there is of either kind of device. */
const kinds = [
  { mark: "real sizes", file: "real-sizes.svg", reports: all.filter(({ machine }) => machine.gpu === null) },
  { mark: "real sizes: gpu", file: "real-sizes-gpu.svg", reports: all.filter(({ machine }) => machine.gpu !== null) },
].filter(({ reports }) => reports.length > 0);

const row = (cells) => `| ${cells.join(" | ")} |`;
const threadsText = (threads) => (threads === 1 ? "one thread" : `${threads} threads`);

/** Groups of reports, by model and runtime. */
class Findings {
  constructor(reports) {
    this.reports = reports;
    this.groups = reports.flatMap(({ loads }) => loads.flatMap((load) => load.groups));
    this.models = [...new Set(this.groups.map(({ name }) => name.split(":")[0]))];
    this.isGpu = reports[0].machine.gpu !== null;
  }

  groupsOf(model) {
    return this.groups.filter(({ name }) => name.startsWith(`${model}:`));
  }

  runtimesOf(model) {
    return [...new Set(this.groupsOf(model).flatMap(({ contestants }) => contestants.map(({ name }) => name)))];
  }

  /** What a model's group of that kind found for a runtime; undefined where it was not measured. */
  found(model, kind, runtime) {
    return this.groups
      .find((group) => group.name.startsWith(`${model}: ${kind}`))
      ?.contestants.find((contestant) => contestant.name === runtime);
  }

  /** What went wrong, a line each. */
  problems() {
    const told = this.models.flatMap((model) =>
      this.groupsOf(model).flatMap(({ contestants, failed }) =>
        [...contestants.filter(({ problem }) => problem !== null), ...failed].map(
          ({ name, problem }) => `${model}, ${name}: ${problem}`,
        ),
      ),
    );
    return [...new Set(told)];
  }

  source() {
    const [{ machine, threads }] = this.reports;
    const versions = Object.entries(Object.assign({}, ...this.reports.map((report) => report.versions)));
    const commands = this.reports.map(({ command }) => `\`${command}\``).join(", ");
    const runtimes = versions.map(([name, version]) => `${name} ${version}`).join(", ");
    const device = this.isGpu ? `; ${machine.gpu}` : `, ${threadsText(threads)} each`;
    return `${commands}; ${runtimes}${device}; ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)} when it began.`;
  }

  table() {
    const onDevice = this.groups.some(({ contestants }) =>
      contestants.some(({ figures }) => figures["MiB on the device"] !== undefined),
    );
    const rows = this.models.flatMap((model) =>
      this.runtimesOf(model).map((runtime) => {
        const [load, first, short, long] = [
          "loading",
          "the first token",
          "one token at context 512",
          "one token at context 4096",
        ].map((kind) => this.found(model, kind, runtime));
        const time = (each) => (each === undefined ? "" : timeText(each.medianMs));
        const rate = (each) => (each === undefined ? "" : figureText(each.figures["tokens a second"]));
        const mebibytes = (figure) => (figure === undefined ? "" : `${figureText(figure)} MiB`);
        const host = mebibytes(short?.figures["MiB at most"]);
        const ratio = short === undefined ? "" : ` (${short.figures["of the file"].toFixed(2)} ×)`;
        return [
          model,
          runtime,
          time(load),
          time(first),
          rate(short),
          rate(long),
          ...(this.isGpu ? [host] : [`${host}${ratio}`]),
          ...(onDevice ? [mebibytes(short?.figures["MiB on the device"])] : []),
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
      this.isGpu ? "the host's memory at most, at 512" : "memory at most, at 512 (of the ONNX file)",
      ...(onDevice ? ["the GPU's"] : []),
    ];
    const line = row(titles.map((_, at) => (at < 2 ? "---" : "---:")));
    const problems = this.problems().flatMap((problem) => ["", problem]);
    const type = this.groups
      .find(({ name }) => name.includes(": loading,"))
      ?.name.split(", ")
      .at(-1);
    const lead = this.isGpu ? [`The same shapes on a GPU, activations and caches in ${type}.`, ""] : [];
    return [...lead, row(titles), line, ...rows.map(row), ...problems, "", this.source()].join("\n");
  }

  /** Tokens a second at context 512, a bar for each runtime, each model on a linear scale of its own that begins at zero. */
  drawn() {
    const [width, labels, room] = [820, 340, 380];
    const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
    const parts = [];
    let y = 46;
    for (const model of this.models) {
      const measured = this.runtimesOf(model).flatMap(
        (runtime) => this.found(model, "one token at context 512", runtime) ?? [],
      );
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
    const [{ machine, threads }] = this.reports;
    const where = this.isGpu ? `on ${machine.gpu.split(",")[0]}` : `${threadsText(threads)} each`;
    const title = `Tokens a second at context 512, weights of 4 bits, ${where}; longer is faster`;
    parts.unshift(`<text x="16" y="22">${escaped(title)}</text>`);
    return picture(width, y, title, parts, ".ours{fill:$ours}.theirs{fill:$theirs}");
  }
}

for (const { mark, file, reports } of kinds) {
  const findings = new Findings(reports);
  const table = findings.table();
  if (pages.length === 0) console.log(table);
  else writeFileSync(`${pictures}${file}`, findings.drawn());
  for (const page of pages)
    writeFileSync(
      page,
      readFileSync(page, "utf8").replace(
        new RegExp(`(<!-- ${mark} -->\n)[^]*?(\n<!-- end -->)`, "g"),
        (_, start, end) => `${start}\n${table}\n${end}`,
      ),
    );
}
