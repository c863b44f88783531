/** What a token costs at each context, as rows of a table and as an SVG with one line a contestant. Reads a report, measures nothing. */
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
  readonly color: string;
  readonly dashed?: boolean;
  readonly of: (cost: ContextCost) => number | undefined;
}

const lines: readonly Line[] = [
  { name: "original, insitu", color: "#b56f00", of: ({ original }) => original },
  { name: "original, onnxruntime-node", color: "#5d3f8e", of: ({ theirs }) => theirs },
  { name: "rewritten, insitu", color: "#1b7f5c", of: ({ rewritten }) => rewritten },
  { name: "rewritten, without its attentions", color: "#1b7f5c", dashed: true, of: ({ rest }) => rest },
];

const area = { left: 70, right: 660, top: 46, bottom: 350 } as const;
const [width, height] = [900, 410];

const text = (x: number, y: number, content: string, more = ""): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${more}>${content}</text>`;

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
  const parts = [
    text(8, 24, "One token of a decoder with Concat caches, before and after insitu rewrite", ' font-weight="bold"'),
  ];
  for (let time = 0; time <= mostTime; time += stepFor(mostTime)) {
    parts.push(`<path d="M${area.left} ${y(time).toFixed(1)}H${area.right}" stroke="#ddd"/>`);
    parts.push(text(area.left - 8, y(time) + 4, `${Number(time.toPrecision(3))} ms`, ' text-anchor="end" fill="#555"'));
  }
  for (const { context } of costs.filter((cost) => cost.context * 8 >= mostContext))
    parts.push(text(x(context), area.bottom + 20, String(context), ' text-anchor="middle" fill="#555"'));
  parts.push(text((area.left + area.right) / 2, area.bottom + 40, "context", ' text-anchor="middle" fill="#555"'));
  let lowest = Infinity;
  for (const { name, color, dashed, of } of drawn) {
    const points = costs.map((cost) => `${x(cost.context).toFixed(1)},${y(of(cost)!).toFixed(1)}`);
    const dashes = dashed === true ? ' stroke-dasharray="6 4"' : "";
    parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="${color}" stroke-width="2"${dashes}/>`);
    const last = of(costs.at(-1)!)!;
    // Labels that would lie on one another move apart.
    const place = Number.isFinite(lowest) ? Math.max(y(last), lowest + 18) : y(last);
    lowest = place;
    parts.push(text(area.right + 10, place + 4, `${name}: ${timeText(last)}`, ` fill="${color}"`));
  }
  const { machine, versions } = report;
  const source = [...Object.entries(versions).map(([runtime, version]) => `${runtime} ${version}`), machine.cpu];
  parts.push(text(8, height - 8, `${source.join(", ")}, ${machine.cores} cores.`, ' font-size="11" fill="#666"'));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}
