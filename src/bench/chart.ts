/**
 * A report as an SVG: one bar a contestant on a logarithmic scale, group by group, the kernels' share darker where a profiler
 * tells it. Plain shapes and text, no script.
 */
import type { ContestantReport, Report } from "./report.js";
import { ratioText, timeText } from "./table.js";

const width = 920;
const labelWidth = 330;
const figureWidth = 230;
const barHeight = 16;
const rowHeight = 22;
const groupGap = 40;

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);

const text = (x: number, y: number, content: string, more = ""): string =>
  `<text x="${x}" y="${y}"${more}>${escaped(content)}</text>`;

/** One bar a contestant, from the power of ten below the shortest time to the longest. */
export function reportSvg(report: Report): string {
  const groups = report.loads.flatMap((load) => load.groups);
  const times = groups.flatMap((group) =>
    group.contestants.flatMap(({ medianMs, kernelMs }) => (kernelMs === null ? [medianMs] : [medianMs, kernelMs])),
  );
  // A difference of two times may be none, or less.
  const positive = times.filter((time) => time > 0);
  const [from, to] = [Math.floor(Math.log10(Math.min(...positive))), Math.log10(Math.max(...positive))];
  const room = width - labelWidth - figureWidth;
  const length = (time: number): number =>
    time > 0 ? Math.max(1, ((Math.log10(time) - from) / Math.max(to - from, 1)) * room) : 1;
  const parts: string[] = [];
  let y = 24;
  for (const { name, contestants } of groups) {
    parts.push(text(8, y, name, ' font-weight="bold"'));
    y += 10;
    for (const contestant of contestants) {
      parts.push(...bar(contestant, y, length));
      y += rowHeight;
    }
    y += groupGap - 10;
  }
  const { machine, versions } = report;
  const source = [
    ...Object.entries(versions).map(([runtime, version]) => `${runtime} ${version}`),
    machine.cpu,
    `${machine.cores} cores`,
    `Node ${machine.node}`,
  ];
  parts.push(text(8, y, `Logarithmic scale. ${source.join(", ")}.`, ' font-size="11" fill="#666"'));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y + 16}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${y + 16}" fill="#fff"/>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

function bar(
  { name, runtime, medianMs, ratio, kernelMs }: ContestantReport,
  y: number,
  length: (time: number) => number,
): string[] {
  const fill = ratio === null ? "#c9c9c9" : runtime === "insitu" ? "#1b7f5c" : "#b09bd0";
  const kernels = kernelMs === null ? "" : `, kernels ${timeText(kernelMs)}`;
  const figure = `${timeText(medianMs)} (${ratio === null ? "wrong result" : ratioText(ratio)})${kernels}`;
  const x = labelWidth;
  const rectangle = (time: number, color: string): string =>
    `<rect x="${x}" y="${y}" width="${length(time).toFixed(1)}" height="${barHeight}" fill="${color}"/>`;
  return [
    text(x - 8, y + barHeight - 3, name, ' text-anchor="end"'),
    rectangle(medianMs, fill),
    ...(kernelMs === null ? [] : [rectangle(kernelMs, "#5d3f8e")]),
    text(Number((x + length(medianMs) + 6).toFixed(1)), y + barHeight - 3, figure, ' fill="#333"'),
  ];
}
