/** What a token costs at each context, as rows of a table and as an SVG with one line a contestant. Reads a report, measures nothing. */
import { element, picture, textWidth } from "../pictures/draw-svg.js";
import { contextGroupTitle, contextNames, contextTitle } from "./context-cost.js";
import type { Report } from "./report.js";
import { timeText } from "./table.js";

/** Milliseconds a token at one context. */
interface ContextCost {
  readonly context: number;
  readonly rewritten: number;
  /** The rewritten decoder's attentions alone, and what the rest takes. */
  readonly attention: number;
  readonly rest: number;
  readonly original: number;
  /** The original on onnxruntime-node; undefined where it was not measured. */
  readonly theirs: number | undefined;
}

/** The costs that a report holds, in the order of the contexts. */
export function contextCosts(report: Report): ContextCost[] {
  const group = report.loads.flatMap(({ groups }) => groups).find(({ name }) => name.startsWith(contextGroupTitle));
  const times = new Map((group?.contestants ?? []).map(({ name, medianMs }) => [name, medianMs]));
  const contexts = new Set([...times.keys()].map((name) => Number(/\d+/.exec(name)?.[0])));
  return [...contexts]
    .sort((a, b) => a - b)
    .map((context) => {
      const timeOf = (name: string): number | undefined => times.get(`${contextTitle} ${context}: ${name}`);
      const [rewritten, attention] = [timeOf(contextNames.rewritten) ?? NaN, timeOf(contextNames.attention) ?? NaN];
      const original = timeOf(contextNames.original) ?? NaN;
      const theirs = timeOf(contextNames.theirs);
      return { context, rewritten, attention, rest: rewritten - attention, original, theirs };
    });
}

interface Line {
  readonly name: string;
  /** The class of its colour. */
  readonly kind: string;
  readonly of: (cost: ContextCost) => number | undefined;
}

const lines: readonly Line[] = [
  { name: "original, insitu", kind: "before", of: ({ original }) => original },
  { name: "original, onnxruntime-node", kind: "peer", of: ({ theirs }) => theirs },
  { name: "rewritten, insitu", kind: "after", of: ({ rewritten }) => rewritten },
  { name: "rewritten, without its attentions", kind: "after dashed", of: ({ rest }) => rest },
];

const style = `polyline{fill:none;stroke-width:2}.grid{stroke:$edge;stroke-width:1}.dashed{stroke-dasharray:6 4}
polyline.before{stroke:$third}polyline.peer{stroke:$theirs}polyline.after{stroke:$ours}
text.before{fill:$third}text.peer{fill:$theirs}text.after{fill:$ours}
`;

const margin = 24;
const area = { left: 86, right: 660, top: 64, bottom: 350 } as const;

const text = (x: number, y: number, content: string, kind: string): string =>
  element("text", { x, y, class: kind }, content);

/** A step between marks that gives at most six of them. */
function stepFor(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most / 6));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => most / step <= 6) ?? most;
}

/** One line a contestant: contexts to the right, milliseconds a token upwards, both from 0. */
export function contextSvg(report: Report): string {
  const costs = contextCosts(report);
  // The highest first, as their labels stand.
  const drawn = lines
    .filter(({ of }) => costs.every((cost) => of(cost) !== undefined))
    .toSorted((a, b) => b.of(costs.at(-1)!)! - a.of(costs.at(-1)!)!);
  const mostContext = Math.max(...costs.map(({ context }) => context));
  const mostTime = Math.max(...drawn.flatMap(({ of }) => costs.map((cost) => of(cost)!)));
  const x = (context: number): number => area.left + (context / mostContext) * (area.right - area.left);
  const y = (time: number): number => area.bottom - (time / mostTime) * (area.bottom - area.top);
  const labelOf = ({ name, of }: Line): string => `${name}: ${timeText(of(costs.at(-1)!)!)}`;
  const title = "One token of a decoder with Concat caches, before and after insitu rewrite";
  const parts = [
    text(margin, margin + 14, title, "title"),
    text(area.left - 8, area.top - 8, "a token", "small end"),
    text((area.left + area.right) / 2, area.bottom + 40, "context, in tokens", "muted middle"),
  ];
  for (let time = 0; time <= mostTime; time += stepFor(mostTime)) {
    parts.push(element("line", { x1: area.left, x2: area.right, y1: y(time), y2: y(time), class: "grid" }));
    parts.push(text(area.left - 8, y(time) + 4, `${Number(time.toPrecision(3))} ms`, "muted end"));
  }
  for (const { context } of costs.filter((cost) => cost.context * 8 >= mostContext))
    parts.push(text(x(context), area.bottom + 20, String(context), "muted middle"));
  let lowest = -Infinity;
  for (const line of drawn) {
    const points = costs.map((cost) => `${x(cost.context).toFixed(1)},${y(line.of(cost)!).toFixed(1)}`);
    parts.push(element("polyline", { points: points.join(" "), class: line.kind }));
    // Labels that would lie on one another move apart.
    lowest = Math.max(y(line.of(costs.at(-1)!)!), lowest + 18);
    parts.push(text(area.right + 10, lowest + 4, labelOf(line), line.kind));
  }
  const { machine, versions } = report;
  const source = [...Object.entries(versions).map(([runtime, version]) => `${runtime} ${version}`), machine.cpu];
  const bottom = Math.max(area.bottom + 40, lowest) + 30;
  parts.push(text(margin, bottom, `${source.join(", ")}, ${machine.cores} cores.`, "small"));
  const width = area.right + 10 + Math.max(...drawn.map((line) => textWidth(labelOf(line), "sans"))) + margin;
  return picture(width, bottom + margin, title, parts, style);
}
