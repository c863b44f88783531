/** A report on policies as a table, and as a picture: what was not read again, and how soon the first token came, a bar for each policy. */
import { type Column, tableLines } from "./table-lines.js";
import { element, picture } from "../../pictures/draw-svg.js";
import type { PolicyReport, PolicyRow } from "./targets.js";

const number = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

const known: readonly Column<PolicyRow>[] = [
  ["policy", ({ policy }) => policy],
  ["reused", ({ figures }) => `${(100 * figures.reusedShare).toFixed(0)} %`],
  ["requests/s", ({ figures }) => number(figures.requestsPerSecond)],
  ["tokens/s", ({ figures }) => number(figures.tokensPerSecond)],
  ["TTFT median", ({ figures }) => number(figures.ttft.median)],
  ["P99", ({ figures }) => number(figures.ttft.p99)],
  ["errors", ({ figures }) => `${figures.errors} of ${figures.requests}`],
];

const stored: readonly Column<PolicyRow>[] = [
  ["from the store", ({ store }) => (store === null ? "" : `${store.fetched} blocks`)],
  ["to it", ({ store }) => (store === null ? "" : String(store.saved))],
];

/** The table, load by load; times are milliseconds. */
export function policiesText({ loads, rows, machine, command, concurrency, sessions }: PolicyReport): string {
  const lines: string[] = [];
  const columns = rows.some(({ store }) => store !== null) ? [...known, ...stored] : known;
  for (const { name, description } of loads) {
    const own = rows.filter(({ load }) => load === name);
    lines.push(`${name}: ${description}`, "", ...tableLines(columns, own, 1), "");
  }
  const failed = rows.find(({ figures }) => figures.firstError !== null);
  if (failed !== undefined) lines.push(`the first error: ${failed.policy}: ${failed.figures.firstError}`, "");
  lines.push(
    `${sessions} sessions, ${concurrency} at a time. Times in milliseconds.`,
    `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${command}`,
  );
  return lines.join("\n");
}

const label = (x: number, y: number, text: string, kind = ""): string =>
  element("text", { x, y, ...(kind === "" ? {} : { class: kind }) }, text);

const [width, left, barWidth, line, top] = [900, 190, 250, 24, 40];

/** One panel a load: reused share on the left, median of the time to the first token on the right. */
export function policiesSvg({ loads, rows, machine, command }: PolicyReport): string {
  const parts: string[] = [];
  let y = top;
  for (const { name } of loads) {
    const own = rows.filter(({ load }) => load === name);
    const slowest = Math.max(1, ...own.map(({ figures }) => figures.ttft.median));
    parts.push(
      label(10, y, name, "strong"),
      label(left, y, "prompt tokens reused", "muted"),
      label(left + barWidth + 90, y, "time to the first token, median", "muted"),
    );
    for (const { policy, figures } of own) {
      y += line;
      const bars: readonly (readonly [x: number, share: number, text: string, kind: string])[] = [
        [left, figures.reusedShare, `${(100 * figures.reusedShare).toFixed(0)} %`, "reused"],
        [left + barWidth + 90, figures.ttft.median / slowest, `${number(figures.ttft.median)} ms`, "waited"],
      ];
      parts.push(label(left - 10, y, policy, "end"));
      for (const [x, share, text, kind] of bars) {
        const long = Math.max(1, share * barWidth);
        parts.push(
          element("rect", { class: kind, x, y: y - 12, width: long, height: 15 }),
          label(x + long + 6, y, text),
        );
      }
    }
    y += 2 * line;
  }
  const source = `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${command}`;
  parts.push(label(10, y, source, "small"));
  const title = "prompt tokens reused, and the time to the first token, by policy";
  return picture(width, y + 14, title, parts, ".reused{fill:$ours}.waited{fill:$third}");
}
