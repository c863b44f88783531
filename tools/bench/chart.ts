/**
 * A report as an SVG: a dot for each contestant's time on a logarithmic axis, group by group, and a ring where a profiler tells what the
 * kernels alone took. Dots, because the length of a bar from no zero says nothing. Plain shapes and text, no script.
 */
import { element, fitMiddle, picture, textWidth, wrapText } from "../pictures/draw-svg.js";
import type { ContestantReport, Report } from "./report.js";
import { ratioText, timeText } from "./table.js";

const margin = 24;
const labelWidth = 320;
const plotWidth = 380;
const rowHeight = 22;
const left = margin + labelWidth;

const style = `.grid{stroke:$edge;stroke-width:1}.track{stroke:$edge;stroke-width:1;stroke-dasharray:1 3}
.ours{fill:$ours}.theirs{fill:$theirs}.wrong{fill:none;stroke:$fault;stroke-width:2}.kernels{fill:$ground;stroke:$theirs;stroke-width:2}
`;

const at = (x: number, y: number, content: string, kind: string): string =>
  element("text", { x, y, class: kind }, content);

/** Every time of a group's contestants that can be drawn: a difference of two times may be none, or less. */
const timesOf = ({ medianMs, kernelMs }: ContestantReport): number[] =>
  [medianMs, kernelMs ?? 0].filter((time) => time > 0);

/** The report as an SVG document. */
export function reportSvg(report: Report): string {
  const groups = report.loads.flatMap((load) => load.groups).filter(({ contestants }) => contestants.length > 0);
  const all = groups.flatMap(({ contestants }) => contestants);
  const drawn = all.flatMap(timesOf);
  // A report may have nothing to draw: what there was not enough memory for has no time.
  const times = drawn.length === 0 ? [1] : drawn;
  const from = Math.floor(Math.log10(Math.min(...times)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...times))));
  const x = (time: number): number =>
    left + ((Math.log10(Math.max(time, 10 ** from)) - from) / (to - from)) * plotWidth;
  const widest = Math.max(0, ...all.map((each) => textWidth(figuresOf(each), "sans")));
  const width = left + plotWidth + widest + 12 + margin;
  const parts: string[] = [];
  let y = margin + 14;
  parts.push(at(margin, y, report.command, "title"));
  y += 22;
  parts.push(
    at(
      margin,
      y,
      "Median time of one step, to the right on a logarithmic scale: each line is ten times the one before.",
      "muted",
    ),
  );
  parts.push(...legend((y += 22), all));
  y += 16;
  for (const { name, contestants } of groups) {
    y += 26;
    const top = y + 10;
    const bottom = top + contestants.length * rowHeight;
    parts.push(at(margin, y, name, "strong"));
    for (let power = from; power <= to; power++) {
      const place = x(10 ** power);
      parts.push(element("line", { x1: place, x2: place, y1: top, y2: bottom, class: "grid" }));
      parts.push(at(place, bottom + 14, timeText(10 ** power), "small middle"));
    }
    contestants.forEach((contestant, row) => parts.push(...drawRow(contestant, top + (row + 0.5) * rowHeight, x)));
    y = bottom + 20;
  }
  const { machine, versions } = report;
  const source = [
    ...Object.entries(versions).map(([runtime, version]) => `${runtime} ${version}`),
    machine.cpu,
    `${machine.cores} cores`,
    `Node ${machine.node}`,
  ];
  y += 8;
  for (const line of wrapText(`${source.join(", ")}.`, width - 2 * margin))
    parts.push(at(margin, (y += 16), line, "small"));
  return picture(width, y + margin, report.command, parts, style);
}

const figuresOf = ({ medianMs, ratio, kernelMs }: ContestantReport): string =>
  `${timeText(medianMs)} (${ratio === null ? "wrong result" : ratioText(ratio)})${kernelMs === null ? "" : `, kernels ${timeText(kernelMs)}`}`;

function drawRow(contestant: ContestantReport, y: number, x: (time: number) => number): string[] {
  const { name, runtime, medianMs, ratio, kernelMs } = contestant;
  const kind = ratio === null ? "wrong" : runtime === "insitu" ? "ours" : "theirs";
  return [
    at(left - 10, y + 4, fitMiddle(name, Math.floor(labelWidth / 6.9)), "end"),
    element("line", { x1: left, x2: left + plotWidth, y1: y, y2: y, class: "track" }),
    ...(kernelMs === null ? [] : [element("circle", { cx: x(kernelMs), cy: y, r: 4.5, class: "kernels" })]),
    element("circle", { cx: x(medianMs), cy: y, r: 5, class: kind }),
    at(left + plotWidth + 12, y + 4, figuresOf(contestant), ""),
  ];
}

/** What the marks mean; only those that occur. */
function legend(y: number, all: readonly ContestantReport[]): string[] {
  const items = [
    ["ours", "insitu", all.some(({ runtime, ratio }) => runtime === "insitu" && ratio !== null)],
    ["theirs", "others", all.some(({ runtime, ratio }) => runtime !== "insitu" && ratio !== null)],
    [
      "kernels",
      "their kernels alone, as the runtime's own profiler counts them",
      all.some(({ kernelMs }) => kernelMs !== null),
    ],
    ["wrong", "a wrong result", all.some(({ ratio }) => ratio === null)],
  ] as const;
  let x = margin;
  return items
    .filter(([, , shown]) => shown)
    .flatMap(([kind, text]) => {
      const start = x;
      x += 18 + textWidth(text, "small") + 20;
      return [element("circle", { cx: start + 6, cy: y - 4, r: 4.5, class: kind }), at(start + 16, y, text, "small")];
    });
}
