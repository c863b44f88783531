/** A report on servers as a table, and as a picture: tokens a second over clients at a time, a line for each server. */
import { type Column, tableLines } from "./table-lines.js";
import { element, picture, textWidth, wrapText } from "../../pictures/draw-svg.js";
import type { ServeReport, ServeRow } from "./run.js";
import { paceText } from "./run.js";

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const columns: readonly Column<ServeRow>[] = [
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
  ["CPU", ({ processorPerToken: time }) => (time === null ? "" : number(time))],
  ["reused", ({ figures }) => `${(figures.reusedShare * 100).toFixed(0)} %`],
  ["errors", ({ figures }) => `${figures.errors} of ${figures.requests}`],
];

/** The table, load by load; times are milliseconds. */
export function serveText({ loads, rows, machine, inTime, command, llama, missing }: ServeReport): string {
  const lines: string[] = [];
  for (const { name, description } of loads) {
    const own = rows.filter(({ load }) => load === name);
    lines.push(`${name}: ${description}`, "", ...tableLines(columns, own, 2), "");
  }
  const failed = rows.find(({ figures }) => figures.firstError !== null);
  if (failed !== undefined)
    lines.push(`the first error: ${failed.server}, ${paceText(failed.pace)}: ${failed.figures.firstError}`, "");
  if (llama !== null)
    lines.push(
      `node-llama-cpp ${llama.version} on the same weights; of ${llama.compared} texts ${llama.same} are ours to the last token.`,
    );
  for (const { name, install } of missing) lines.push(`${name} is not installed: ${install}`);
  lines.push(
    "CPU: milliseconds that processors worked for the server for each new token, prompts included.",
    `Times in milliseconds. Goodput: requests a second with TTFT up to ${inTime.ttft} and TPOT up to ${inTime.tpot}.`,
    `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${command}`,
  );
  return lines.join("\n");
}

const kinds = ["ours", "third", "fourth", "fifth", "theirs"];
const style = `.grid{stroke:$edge;stroke-width:1}polyline{fill:none;stroke-width:2}
${kinds.map((kind) => `.${kind}{fill:$${kind}}polyline.${kind}{fill:none;stroke:$${kind}}`).join("\n")}
`;
const [panelWidth, bottom, left, top, right, margin] = [460, 270, 64, 60, 30, 24];

const label = (x: number, y: number, text: string, kind: string): string =>
  element("text", { x, y, class: kind }, text);

/** One panel a load: linear upwards; to the right the numbers of clients that were tried, one beside the other. */
export function serveSvg(report: ServeReport): string {
  const { loads, rows, machine } = report;
  const servers = [...new Set(rows.map(({ server }) => server))];
  const panels = loads.map(({ name }, at) =>
    panelOf(
      name,
      rows.filter(({ load }) => load === name),
      servers,
      at * panelWidth,
    ),
  );
  let x = left;
  const legend = servers.flatMap((server, at) => {
    const start = x;
    x += 18 + textWidth(server, "sans") + 20;
    return [
      element("rect", { x: start, y: bottom + 48, width: 12, height: 12, class: kinds[at % kinds.length] }),
      label(start + 18, bottom + 58, server, ""),
    ];
  });
  const width = Math.max(loads.length * panelWidth, x + margin);
  const source = `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${report.command}`;
  const lines = wrapText(source, width - left - margin).map((line, at) =>
    label(left, bottom + 84 + at * 16, line, "small"),
  );
  const height = bottom + 84 + lines.length * 16;
  return picture(width, height, "Tokens a second over clients at a time", [...panels, ...legend, ...lines], style);
}

function panelOf(name: string, rows: readonly ServeRow[], servers: readonly string[], x0: number): string {
  const closed = rows.flatMap(({ pace, server, figures }) =>
    "rate" in pace ? [] : [{ server, at: pace.concurrency, value: figures.tokensPerSecond }],
  );
  const paces = [...new Set(closed.map(({ at }) => at))].toSorted((a, b) => a - b);
  const most = Math.max(1, ...closed.map(({ value }) => value)) * 1.1;
  const [from, to] = [x0 + left, x0 + panelWidth - right];
  const x = (at: number): number => from + 14 + (paces.indexOf(at) / Math.max(1, paces.length - 1)) * (to - from - 28);
  const y = (value: number): number => bottom - (value / most) * (bottom - top);
  const lines = servers.flatMap((server, index) => {
    const kind = kinds[index % kinds.length];
    const points = closed.filter((each) => each.server === server).map(({ at, value }) => [x(at), y(value)] as const);
    return [
      element("polyline", {
        points: points.map((point) => point.map((at) => at.toFixed(1)).join()).join(" "),
        class: kind,
      }),
      ...points.map(([cx, cy]) => element("circle", { cx, cy, r: 3.5, class: kind })),
    ];
  });
  const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => {
    const value = share * (most / 1.1);
    return [
      element("line", { x1: from, x2: to, y1: y(value), y2: y(value), class: "grid" }),
      label(from - 8, y(value) + 4, number(value), "muted end"),
    ];
  });
  const ticks = paces.map((at) => label(x(at), bottom + 18, String(at), "muted middle"));
  return [
    label(from, margin + 14, `${name}: tokens a second`, "title"),
    ...grid,
    ...ticks,
    label((from + to) / 2, bottom + 36, "clients at a time", "small middle"),
    ...lines,
  ].join("\n");
}
