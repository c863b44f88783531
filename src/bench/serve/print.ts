/** A report on servers as a table, and as a picture: tokens a second over clients at a time, a line for each server. */
import type { ServeReport, ServeRow } from "./run.js";
import { paceText } from "./run.js";

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const columns: readonly (readonly [title: string, of: (row: ServeRow) => string])[] = [
  ["pace", ({ pace }) => paceText(pace)],
  ["server", ({ server }) => server],
  ["tokens/s", ({ figures }) => number(figures.tokensPerSecond)],
  ["requests/s", ({ figures }) => number(figures.requestsPerSecond)],
  ["goodput", ({ figures }) => number(figures.goodput)],
  ["TTFT mean", ({ figures }) => number(figures.ttft.mean)],
  ["median", ({ figures }) => number(figures.ttft.median)],
  ["P99", ({ figures }) => number(figures.ttft.p99)],
  ["TPOT mean", ({ figures }) => number(figures.tpot.mean)],
  ["median", ({ figures }) => number(figures.tpot.median)],
  ["P99", ({ figures }) => number(figures.tpot.p99)],
  ["ITL mean", ({ figures }) => number(figures.itl.mean)],
  ["median", ({ figures }) => number(figures.itl.median)],
  ["P99", ({ figures }) => number(figures.itl.p99)],
  ["reused", ({ figures }) => `${(figures.reusedShare * 100).toFixed(0)} %`],
  ["errors", ({ figures }) => `${figures.errors} of ${figures.requests}`],
];

/** The table, load by load; times are milliseconds. */
export function serveText({ loads, rows, machine, inTime, command }: ServeReport): string {
  const lines: string[] = [];
  for (const { name, description } of loads) {
    const cells = [
      columns.map(([title]) => title),
      ...rows.filter(({ load }) => load === name).map((row) => columns.map(([, of]) => of(row))),
    ];
    const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at].length)));
    lines.push(`${name}: ${description}`, "");
    for (const row of cells)
      lines.push(
        row
          .map((cell, at) => (at < 2 ? cell.padEnd(widths[at]) : cell.padStart(widths[at])))
          .join("  ")
          .trimEnd(),
      );
    lines.push("");
  }
  const failed = rows.find(({ figures }) => figures.firstError !== null);
  if (failed !== undefined)
    lines.push(`the first error: ${failed.server}, ${paceText(failed.pace)}: ${failed.figures.firstError}`, "");
  lines.push(
    `Times in milliseconds. Goodput: requests a second with TTFT up to ${inTime.ttft} and TPOT up to ${inTime.tpot}.`,
    `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${command}`,
  );
  return lines.join("\n");
}

const colours = ["#2f6b4f", "#b5651d", "#3a5fa0", "#8b3a62", "#666666"];
const [width, height, left, top, panel] = [460, 250, 56, 34, 40];

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
const label = (x: number, y: number, text: string, more = ""): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${more}>${escaped(text)}</text>`;

/** One panel a load. */
export function serveSvg(report: ServeReport): string {
  const { loads, rows, machine } = report;
  const servers = [...new Set(rows.map(({ server }) => server))];
  const whole = loads.length * width;
  const parts = loads.map(({ name }, at) =>
    panelOf(
      name,
      rows.filter(({ load }) => load === name),
      servers,
      at * width,
    ),
  );
  const legend = servers.map((server, at) => {
    const x = left + at * 150;
    return `<rect x="${x}" y="${height + panel - 10}" width="12" height="12" fill="${colours[at % colours.length]}"/>${label(x + 18, height + panel, server)}`;
  });
  const source = `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${report.command}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${whole} ${height + panel + 40}" font-family="sans-serif" font-size="12">`,
    `<rect width="${whole}" height="${height + panel + 40}" fill="#fff"/>`,
    ...parts,
    ...legend,
    label(left, height + panel + 26, source, ' font-size="10" fill="#666"'),
    "</svg>\n",
  ].join("\n");
}

function panelOf(name: string, rows: readonly ServeRow[], servers: readonly string[], x0: number): string {
  const closed = rows.flatMap(({ pace, server, figures }) =>
    "rate" in pace ? [] : [{ server, at: pace.concurrency, value: figures.tokensPerSecond }],
  );
  const paces = [...new Set(closed.map(({ at }) => at))].toSorted((a, b) => a - b);
  const most = Math.max(1, ...closed.map(({ value }) => value)) * 1.1;
  const x = (at: number): number =>
    x0 + left + (paces.indexOf(at) / Math.max(1, paces.length - 1)) * (width - left - 30);
  const y = (value: number): number => height - (value / most) * (height - top - 10);
  const lines = servers.map((server, index) => {
    const points = closed
      .filter((each) => each.server === server)
      .map(({ at, value }) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
    return `<polyline points="${points.join(" ")}" fill="none" stroke="${colours[index % colours.length]}" stroke-width="2"/>`;
  });
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const value = share * (most / 1.1);
    return `<line x1="${x0 + left}" x2="${x0 + width - 30}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}" stroke="#e5e5e5"/>${label(x0 + left - 8, y(value) + 4, number(value), ' text-anchor="end" fill="#666"')}`;
  });
  const ticks = paces.map((at) => label(x(at), height + 16, String(at), ' text-anchor="middle" fill="#666"'));
  return [
    label(x0 + left, 20, `${name}: tokens a second over clients at a time`, ' font-weight="bold"'),
    ...grid,
    ...ticks,
    ...lines,
  ].join("\n");
}
