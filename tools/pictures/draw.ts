/**
 * A plan's caches as a picture: SVG, by hand. Each cache is a lane, time runs to the right, each bar is one buffer: where a cache
 * is written in place there is one bar, where it is copied a second one begins. Follows the reader's light or dark theme.
 */
import type { Plan } from "#insitu/plan/plan.js";
import { type Explanation, explanationOf, type SessionFacts } from "#insitu/explain/gather.js";
import { groupLanes, type Lane, lanesOf } from "./lanes.js";
import { LanePicture, margin } from "./draw-lane.js";
import { element, picture, textWidth, wrapText } from "./draw-svg.js";

/** Lanes drawn one by one, at most; more are grouped. */
const mostLanes = 8;

/** What to write above the picture. */
interface DrawOptions {
  readonly title?: string;
  /** False leaves out the title and the summary, for pictures inside a text. */
  readonly heading?: boolean;
}

/** The caches of a plan as an SVG document. */
export function drawPlan(plan: Plan, facts: SessionFacts, options: DrawOptions = {}): string {
  const explanation = explanationOf(plan, facts);
  const all = lanesOf(explanation);
  const lanes = all.length > mostLanes ? groupLanes(all) : all;
  const width = lanes.reduce((widest, lane) => Math.max(widest, new LanePicture(lane, 0).width), 720);
  const parts: string[] = [];
  let y = margin;
  if (options.heading !== false) {
    parts.push(element("text", { x: margin, y: y + 14, class: "title" }, options.title ?? plan.graph.name));
    for (const line of summary(explanation).flatMap((text) => wrapText(text, width - 2 * margin)))
      parts.push(element("text", { x: margin, y: (y += 18) + 16, class: "muted" }, line));
    y += 40;
  }
  if (lanes.length > 0)
    parts.push(element("text", { x: width - margin, y: y + 14, class: "small end" }, "steps run from left to right →"));
  lanes.forEach((lane, at) => {
    if (at > 0) {
      parts.push(element("line", { x1: margin, x2: width - margin, y1: y, y2: y, class: "rule" }));
      y += 22;
    }
    const drawn = new LanePicture(lane, width).draw();
    parts.push(element("g", { transform: `translate(0 ${y})` }, drawn.parts.join("\n"), true));
    y += drawn.height;
  });
  if (lanes.length > 0) {
    parts.push(...legend(lanes, y + 6));
    y += 30;
  }
  return picture(width, y + margin / 2, options.title ?? `The caches of ${plan.graph.name}`, parts);
}

function summary({ caches, bytes }: Explanation): string[] {
  if (caches.length === 0)
    return ["no caches: no operator of this graph updates one, and no output continues an input"];
  const inPlace = caches.filter((cache) => cache.inPlace).length;
  const lines = [`${inPlace} of ${caches.length} cache updates in place`];
  if (bytes !== undefined) {
    const { moved, copying } = bytes;
    const others =
      moved.text === copying.text
        ? "as does any runtime that copies its caches"
        : `a runtime that copies its caches moves ${copying.text}`;
    lines.push(`for each token this plan moves ${moved.text}; ${others}`);
  }
  return lines;
}

/** What the colours mean; only those that occur. */
function legend(lanes: readonly Lane[], y: number): string[] {
  const events = lanes.flatMap((lane) => lane.events);
  const outputs = lanes.flatMap((lane) => lane.outputs);
  const items: (readonly [kind: string, text: string, shown: boolean])[] = [
    ["bar old", "the old value", true],
    ["bar new", "the same bytes, written", events.some(({ role, buffers }) => role === "write" && buffers[0] === 0)],
    ["bar copy", "a copy, made for each token", events.some(({ role }) => role === "copy")],
    ["chip fault", "prevents it", [...events, ...outputs].some(({ atFault }) => atFault)],
  ];
  let x = margin;
  return items
    .filter(([, , shown]) => shown)
    .flatMap(([kind, text]) => {
      const at = x;
      x += 22 + textWidth(text, "sans") + 18;
      return [
        element("rect", { x: at, y, width: 16, height: 10, rx: 2, class: kind }),
        element("text", { x: at + 22, y: y + 9.5, class: "small" }, text),
      ];
    });
}
