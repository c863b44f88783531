// The memory of a server over time as a picture: resident, and the live heap, in MiB over minutes.
import { picture } from "../../dist/tools/pictures/draw-svg.js";

const [width, height, left, right, top, bottom] = [720, 300, 52, 16, 34, 56];
const mebibyte = 2 ** 20;
const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
const text = (x, y, said, more = "") => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}"${more}>${escaped(said)}</text>`;

/** A step of the axis: 1, 2 or 5 times a power of ten. */
function stepOf(most, parts) {
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

/** Samples: { minutes, rss } and, where garbage was collected, heap. */
export function memorySvg(samples, title, source) {
  const end = Math.max(1, samples.at(-1)?.minutes ?? 1);
  const most = Math.max(1, ...samples.map(({ rss }) => rss / mebibyte)) * 1.1;
  const x = (minutes) => left + (minutes / end) * (width - left - right);
  const y = (mebibytes) => height - bottom - (mebibytes / most) * (height - top - bottom);
  const line = (points, colour) =>
    `<polyline points="${points.map(([at, value]) => `${x(at).toFixed(1)},${y(value / mebibyte).toFixed(1)}`).join(" ")}" class="line ${colour}" stroke-width="1.5"/>`;
  const ticks = (most, parts) => {
    const step = stepOf(most, parts);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
  };
  const grid = ticks(most, 5).map(
    (value) =>
      `<line x1="${left}" x2="${width - right}" y1="${y(value).toFixed(1)}" y2="${y(value).toFixed(1)}" class="rule"/>${text(left - 8, y(value) + 4, String(value), ' class="muted end"')}`,
  );
  const legend = [
    ["ours", "resident, MiB"],
    ["third", "live heap, MiB"],
  ].map(
    ([colour, said], at) =>
      `<rect x="${left + at * 150}" y="${height - 32}" width="12" height="12" class="key ${colour}"/>${text(left + 18 + at * 150, height - 22, said)}`,
  );
  const rules = ["ours", "third"].map(
    (colour) => `.line.${colour}{fill:none;stroke:$${colour}}.key.${colour}{fill:$${colour}}`,
  );
  const parts = [
    text(left, 20, title, ' class="strong"'),
    ...grid,
    ...ticks(end, 8).map((value) => text(x(value), height - bottom + 16, String(value), ' class="muted middle"')),
    text(width - right, height - bottom + 30, "minutes", ' class="muted end"'),
    line(
      samples.map(({ minutes, rss }) => [minutes, rss]),
      "ours",
    ),
    line(
      samples.filter(({ heap }) => heap !== undefined).map(({ minutes, heap }) => [minutes, heap]),
      "third",
    ),
    ...legend,
    text(left, height - 6, source, ' class="small"'),
  ];
  return picture(width, height, title, parts, rules.join(""));
}
