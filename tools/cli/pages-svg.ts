/** A pool as a picture: each text as a row of its blocks, with what it shares below one another, and the pool with every block's owners. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { element, fitMiddle, picture, textWidth } from "../pictures/draw-svg.js";
import { poolSummary, type PoolView } from "./pages-view.js";

/** A colour for each text; white is readable on all of them. */
const colours = ["#3b7dd8", "#2b8a5f", "#b8651b", "#8a5cc9", "#c04873", "#2b8796", "#857f22", "#6b7683"];
const cell = { width: 44, height: 26, gap: 4 };
const margin = 24;

type Block = PoolView["blocks"][number];

/** The pool as an SVG document. */
export function poolSvg(view: PoolView, title: string): string {
  const { blocks, texts, statistics } = view;
  const longest = Math.max(8, ...texts.map(({ table }) => table.length));
  const perRow = Math.min(Math.max(longest, 16), 24);
  const width = Math.max(
    720,
    margin * 2 + perRow * (cell.width + cell.gap),
    margin * 2 + 30 + longest * (cell.width + cell.gap),
  );
  const colourOf = new Map(texts.map(({ letter }, at) => [letter, colours[at % colours.length]]));
  const parts: string[] = [];
  let y = margin + 14;
  const say = (text: string, kind: string): void => {
    parts.push(element("text", { x: margin, y, class: kind }, text));
  };
  say(title, "title");
  const { blockSize } = statistics;
  for (const line of [...poolSummary(view), `${bytesText(view.blockBytes)} a block, in all layers together`]) {
    y += 18;
    say(line, "muted");
  }
  y += 34;
  say("the texts, block by block", "op-left");
  y += 12;
  /** Where a block was last drawn: what is shared is joined from text to text. */
  const drawn = new Map<number, { readonly x: number; readonly y: number }>();
  for (const { letter, text, table, rows } of texts) {
    parts.push(element("text", { x: margin, y: y + 38, class: "name" }, letter));
    const room = Math.floor((width - 2 * margin - 30) / 6.6);
    parts.push(element("text", { x: margin + 30, y: y + 14, class: "small over" }, fitMiddle(text, room)));
    table.forEach((block, column) => {
      const x = margin + 30 + column * (cell.width + cell.gap);
      const top = y + 20;
      const before = drawn.get(block);
      if (before !== undefined)
        parts.unshift(
          element("line", {
            x1: before.x + cell.width / 2,
            x2: x + cell.width / 2,
            y1: before.y + cell.height,
            y2: top,
            class: "reads",
            "stroke-dasharray": "3 3",
          }),
        );
      const filled = Math.min(blockSize, rows - column * blockSize) / blockSize;
      parts.push(...drawBlock(blocks[block], x, top, filled, colourOf));
      drawn.set(block, { x, y: top });
    });
    y += 62;
  }
  y += 22;
  say("the pool", "op-left");
  y += 12;
  for (const [at, block] of blocks.entries()) {
    const x = margin + (at % perRow) * (cell.width + cell.gap);
    const top = y + Math.floor(at / perRow) * (cell.height + cell.gap);
    parts.push(...drawBlock(block, x, top, block.rows / blockSize, colourOf));
  }
  y += Math.ceil(blocks.length / perRow) * (cell.height + cell.gap) + 22;
  parts.push(...legend(y, colourOf));
  return picture(width, y + 34, title, parts, style);
}

const style = `.op-left{font-weight:600}.number{font-size:11px;font-weight:600;text-anchor:middle}
.over{paint-order:stroke;stroke:$ground;stroke-width:4px;stroke-linejoin:round}.part{paint-order:stroke;stroke:$chip;stroke-width:3px;stroke-linejoin:round}
.free{fill:none;stroke:$edge;stroke-dasharray:2 3}.kept{fill:$chip;stroke:$muted;stroke-dasharray:4 2}.held{fill:$chip;stroke:$edge}.shared{fill:none;stroke:$text;stroke-width:1.6}
.on-colour{fill:#ffffff}.on-free{fill:$edge}.on-kept{fill:$muted}
`;

/** A block: bands in the colours of its owners, as wide as it is full; a frame where it is kept or free. */
function drawBlock(
  { block, state, letters }: Block,
  x: number,
  y: number,
  filled: number,
  colourOf: ReadonlyMap<string, string>,
): string[] {
  const { width, height } = cell;
  const label = (kind: string): string =>
    element("text", { x: x + width / 2, y: y + 17, class: `number ${kind}` }, String(block));
  const box = (kind: string): string => element("rect", { x, y, width, height, rx: 4, class: kind });
  if (state === "free" || state === "kept") return [box(state), label(`on-${state}`)];
  const band = height / letters.length;
  const inner = Math.max(3, width * filled);
  return [
    box("held"),
    ...letters.map((letter, at) =>
      element("rect", {
        x,
        y: y + at * band,
        width: inner,
        height: band + 0.5,
        rx: letters.length === 1 ? 4 : 0,
        fill: colourOf.get(letter)!,
      }),
    ),
    ...(letters.length > 1 ? [box("shared")] : []),
    label(filled > 0.75 ? "on-colour" : "part"),
  ];
}

function legend(y: number, colourOf: ReadonlyMap<string, string>): string[] {
  const items = [
    ...[...colourOf].map(([letter, fill]) => [letter, { fill }] as const),
    ["shared: bands of all owners", { class: "shared" }],
    ["kept: found again by the same beginning", { class: "kept" }],
    ["free", { class: "free" }],
  ] as const;
  let x = margin;
  return items.flatMap(([text, look]) => {
    const at = x;
    x += 22 + textWidth(text, "small") + 14;
    return [
      element("rect", { x: at, y, width: 16, height: 10, rx: 2, ...look }),
      element("text", { x: at + 22, y: y + 9.5, class: "small" }, text),
    ];
  });
}
