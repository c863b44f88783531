/** One cache drawn as a lane: a bar for each buffer, a chip for each node that touches it, from left to right. */
import { element, fitMiddle, textWidth, wrapText } from "./draw-svg.js";
import type { Lane, LaneEvent } from "./lanes.js";

/** Pixels left free around a picture. */
export const margin = 24;

const chipHeight = 38;
const barHeight = 12;
const gap = 22; // between chips

/** The colour of a bar at a moment: what its bytes are then. */
type BarKind = "old" | "new" | "copy";

/** One lane, laid out from left to right. */
export class LanePicture {
  readonly #lane: Lane;
  readonly #total: number;
  /** The left edge of each event's chip, and of the outputs. */
  readonly #left: number[] = [];
  readonly #barTops: number[] = [];
  /** By buffer: whether a chip stands on it, where it is written, and how many outputs lie in it. */
  readonly #hasChip = new Set<number>();
  readonly #writes = new Map<number, number[]>();
  readonly #outputCounts = new Map<number, number>();
  readonly width: number;

  constructor(lane: Lane, total: number) {
    this.#lane = lane;
    this.#total = total;
    let x = margin + 150;
    lane.events.forEach((event, column) => {
      this.#left.push(x);
      x += chipWidth(event) + gap;
      this.#hasChip.add(chipRow(event));
      if (event.role !== "write") return;
      for (const row of new Set(event.buffers)) {
        const columns = this.#writes.get(row);
        if (columns === undefined) this.#writes.set(row, [column]);
        else columns.push(column);
      }
    });
    this.#left.push(x);
    let outputs = 60;
    for (const { name, buffer } of lane.outputs) {
      outputs = Math.max(outputs, textWidth(fitMiddle(name, 30), "mono") + 36);
      this.#outputCounts.set(buffer, this.#outputCount(buffer) + 1);
    }
    this.width = Math.max(x + outputs, margin + textWidth(heading(lane), "mono") + 300) + margin;
  }

  draw(): { readonly parts: readonly string[]; readonly height: number } {
    const lane = this.#lane;
    const parts: string[] = [];
    const copied = lane.verdicts.filter(({ inPlace }) => !inPlace).length;
    const bad = copied > 0;
    const some = bad && copied < lane.verdicts.length;
    const badge = some ? `${copied} of ${lane.verdicts.length} copied` : bad ? "copied" : "in place";
    const badgeWidth = textWidth(badge, "sans") + 30;
    parts.push(
      element("rect", {
        x: margin,
        y: 0,
        width: badgeWidth,
        height: 20,
        rx: 10,
        class: bad ? "badge bad" : "badge good",
      }),
      element("text", { x: margin + badgeWidth / 2, y: 14, class: "badge-text" }, `${bad ? "✗" : "✓"} ${badge}`),
      element("text", { x: margin + badgeWidth + 10, y: 14.5, class: "name" }, heading(lane)),
    );
    let y = 22;
    for (const { node, inPlace, reason } of lane.verdicts) {
      const who = lane.verdicts.length > 1 ? `${node} ${inPlace ? "in place" : "copied"}: ` : "";
      for (const line of wrapText(`${who}${reason}`, this.#total - 2 * margin))
        parts.push(element("text", { x: margin, y: (y += 17), class: inPlace ? "muted" : "why" }, line));
    }
    y += 14;
    lane.buffers.forEach((_, row) => {
      // A buffer that no chip stands on needs no room for one.
      if (this.#hasChip.has(row) || this.#outputCount(row) > 1) y += chipHeight + 18;
      else if (row > 0) y += 12;
      this.#barTops.push(y);
      y += barHeight + 22;
    });
    const drawn = [
      ...lane.buffers.map((_, row) => this.#bar(row)),
      ...lane.events.map((event, column) => this.#event(event, column)),
      this.#outputs(),
    ];
    return { parts: [...parts, ...drawn.flat()], height: y + 8 };
  }

  #outputCount(row: number): number {
    return this.#outputCounts.get(row) ?? 0;
  }

  /** The middle of an event's chip. */
  #middle(column: number): number {
    return this.#left[column] + chipWidth(this.#lane.events[column]) / 2;
  }

  /** A buffer: a bar that changes colour where it is written. */
  #bar(row: number): string[] {
    const { events, buffers, owner } = this.#lane;
    const { first, last, name } = buffers[row];
    const y = this.#barTops[row];
    const start = first < 0 ? margin : this.#left[first];
    const end =
      last >= events.length ? this.#left.at(-1)! : last < 0 ? start : this.#left[last] + chipWidth(events[last]);
    const parts: string[] = [];
    let kind: BarKind = row === 0 ? "old" : "copy";
    let from = start;
    const segment = (to: number): void => {
      if (to > from)
        parts.push(element("rect", { x: from, y, width: to - from, height: barHeight, class: `bar ${kind}` }));
      from = to;
    };
    for (const column of this.#writes.get(row) ?? []) {
      segment(this.#middle(column));
      if (kind === "old") kind = "new";
    }
    segment(Math.max(end, from + 20));
    parts.push(element("rect", { x: start, y, width: from - start, height: barHeight, class: "cells" }));
    const label =
      first < 0
        ? owner
        : `another buffer, filled for each token${this.#outputCount(row) > 0 ? "" : `: ${fitMiddle(name, 28)}`}`;
    parts.push(element("text", { x: start, y: y + barHeight + 16, class: "small" }, label));
    return parts;
  }

  #event(event: LaneEvent, column: number): string[] {
    const { role, op, node, through, atFault, into } = event;
    const row = chipRow(event);
    const top = this.#barTops[row] - chipHeight - 18;
    const [x, middle, width] = [this.#left[column], this.#middle(column), chipWidth(event)];
    const line = atFault ? "fault-line" : "reads";
    const parts = event.buffers.map((buffer, at) => {
      const bar = this.#barTops[buffer];
      if (buffer < row) return arrow(middle, bar + barHeight, top - 3, into === undefined ? line : "copies");
      if (role === "write") return arrow(middle, top + chipHeight, bar - 2, "writes");
      return arrow(middle, bar, top + chipHeight + 3, at === 0 ? line : "reads");
    });
    // The whole content goes from the old bar through the node into the new one.
    if (into !== undefined) parts.push(arrow(middle, top + chipHeight, this.#barTops[into] - 2, "copies"));
    const kind = atFault ? "fault" : role === "read" ? "reader" : role === "write" ? "writer" : "copier";
    const caption = captionOf(event);
    const title = `${op} "${node}"${through === undefined ? "" : ` through ${through}`}`;
    parts.push(
      chip({ x, y: top, width, height: chipHeight, rx: 7, class: `chip ${kind}` }, title),
      element("text", { x: middle, y: top + (caption === "" ? 23 : 16), class: "op" }, op),
    );
    if (caption !== "") parts.push(element("text", { x: middle, y: top + 30, class: "node" }, caption));
    return parts;
  }

  #outputs(): string[] {
    const x = this.#left.at(-1)!;
    const rows = new Map<number, number>();
    return this.#lane.outputs.flatMap(({ name, buffer, atFault }) => {
      const above = rows.get(buffer) ?? 0;
      rows.set(buffer, above + 1);
      const y = this.#barTops[buffer] - 5 - above * 26;
      const text = fitMiddle(name, 30);
      const width = textWidth(text, "mono") + 20;
      return [
        chip(
          { x, y, width, height: 22, rx: 11, class: `chip ${atFault ? "fault" : "output"}` },
          `graph output "${name}"`,
        ),
        element("text", { x: x + width / 2, y: y + 15, class: "node strong" }, text),
      ];
    });
  }
}

/** The bar that an event's chip stands on: the newest it touches. */
const chipRow = ({ buffers, into }: LaneEvent): number => into ?? buffers.at(-1)!;

const mostName = 24;

const heading = ({ name, type, count }: Lane): string =>
  `${fitMiddle(name, 44)}  ${fitMiddle(type, 44)}${count > 1 ? `  × ${count} alike` : ""}`;

/** What a chip says below its operator: the node, and the view through which it sees the cache. */
const captionOf = ({ node, through }: LaneEvent): string => {
  if (through === undefined) return fitMiddle(node, mostName);
  return `${fitMiddle(node, Math.max(10, mostName + 4 - through.length))} via ${through}`;
};

const chipWidth = (event: LaneEvent): number =>
  Math.max(76, textWidth(event.op, "bold") + 24, textWidth(captionOf(event), "small") + 20);

/** A box with a name that appears under the pointer. */
const chip = (attributes: Parameters<typeof element>[1], title: string): string =>
  element("rect", attributes, element("title", {}, title), true);

const arrow = (x: number, from: number, to: number, kind: string): string =>
  element("line", { x1: x, x2: x, y1: from, y2: to, class: kind, "marker-end": `url(#${kind})` });
