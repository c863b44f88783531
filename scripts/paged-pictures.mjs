// Draws the pictures of docs/studies/scatter-pa-kv-cache.md: where a token's pieces lie in each layout of a paged cache, how rows are
// taken out of a wider buffer, and what the compressing modes keep. `node scripts/paged-pictures.mjs` writes docs/img/paged-*.svg;
// the tests check that they are up to date and that the operator puts every piece where they show it.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { themed } from "../dist/tools/pictures/draw-svg.js";

/** The cache that the layout pictures show: heads of two pieces of 32 bytes. */
export const sizes = { blocks: 2, blockSize: 4, heads: 2, pieces: 2 };

/** The slots of the tokens that the layout pictures show. */
export const slots = [6, 1];

/** Where a piece of a token lies, counted in pieces from the start of the cache. */
export function addressOf(layout, slot, head, piece) {
  const { blockSize, heads, pieces } = sizes;
  const [block, row] = [Math.floor(slot / blockSize), slot % blockSize];
  switch (layout) {
    case "Norm": // [blocks, block_size, heads, pieces]
      return ((block * blockSize + row) * heads + head) * pieces + piece;
    case "NHSD": // [blocks, heads, block_size, pieces]
      return ((block * heads + head) * blockSize + row) * pieces + piece;
    case "PA_NZ": // [blocks, heads * pieces, block_size]
      return (block * heads * pieces + head * pieces + piece) * blockSize + row;
    default:
      throw new Error(`no layout ${layout}`);
  }
}

const colours = {
  ground: ["#ffffff", "#0d1117"],
  edge: ["#d1d9e0", "#3d444d"],
  text: ["#1f2328", "#e6edf3"],
  muted: ["#59636e", "#9da7b1"],
  cell: ["#f6f8fa", "#1c2128"],
  first: ["#9cc9ff", "#2f6bb8"],
  second: ["#8fdba4", "#2c8f47"],
  mean: ["#ffb86b", "#b0661c"],
  gone: ["#e4e7eb", "#30363d"],
};
const style = themed(
  `text{font-family:system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;font-size:12px;fill:$text}
.ground{fill:$ground;stroke:$edge}.title{font-size:15px;font-weight:600}.muted{fill:$muted;font-size:11px}
.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}.middle{text-anchor:middle}
.cell{fill:$cell;stroke:$edge}.first{fill:$first}.second{fill:$second}.mean{fill:$mean}.gone{fill:$gone;stroke-dasharray:3 2}
line,path{stroke:$muted;fill:none}.move{stroke-width:1.2}.brace{stroke-width:1}.tip{fill:$muted;stroke:none}`,
  colours,
);

const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const number = (value) => String(Math.round(value * 10) / 10);

function text(x, y, content, kind = "") {
  return `<text x="${number(x)}" y="${number(y)}"${kind === "" ? "" : ` class="${kind}"`}>${escape(content)}</text>`;
}

function cell(x, y, width, height, kind, label = "") {
  const box = `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" rx="2" class="cell ${kind}"/>`;
  return label === "" ? box : box + text(x + width / 2, y + height / 2 + 4, label, "middle mono");
}

/** A curve from one point down to another, with an arrow's head. */
function move(x, y, toX, toY) {
  const middle = (y + toY) / 2;
  const curve = `M${number(x)} ${number(y)}C${number(x)} ${number(middle)} ${number(toX)} ${number(middle)} ${number(toX)} ${number(toY)}`;
  return `<path class="move" d="${curve}" marker-end="url(#tip)"/>`;
}

/** A bracket below cells, or with `up` −1 above them, and what they are. */
function brace(x, y, width, label, up = 1) {
  const line = `<path class="brace" d="M${number(x + 2)} ${number(y)}v${5 * up}h${number(width - 4)}v${-5 * up}"/>`;
  return line + text(x + width / 2, y + (up > 0 ? 18 : -10), label, "middle muted");
}

function picture(width, height, title, parts) {
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${style}</style>`,
    `<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" class="tip"/></marker></defs>`,
    `<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6"/>`,
    text(16, 26, title, "title"),
    ...parts,
    "</svg>",
  ].join("\n")}\n`;
}

const [cellWidth, cellHeight, left] = [42, 26, 20];
const kinds = ["first", "second"];

const groups = {
  Norm: { shape: "[num_blocks, block_size, num_head, head_size]", each: "slot" },
  NHSD: { shape: "[num_blocks, num_head, block_size, head_size]", each: "head" },
  PA_NZ: { shape: "[num_blocks, num_head · head_size / c, block_size, c]", each: "piece" },
};

/** Two tokens of four pieces each, and the cells of the cache's memory that they go to: one from above, one from below. */
function layoutPicture(layout) {
  const { blocks, blockSize, heads, pieces } = sizes;
  const perBlock = blockSize * heads * pieces;
  const stripX = 70;
  const blockY = (block) => 176 + block * 84;
  const shape = `${groups[layout].shape}: memory left to right; a cell is 32 bytes, h0.1 is head 0, piece 1`;
  const parts = [text(16, 46, shape, "muted")];
  // What each cell of memory holds, found by asking where every piece of every slot lies.
  const memory = new Array(blocks * perBlock);
  for (let slot = 0; slot < blocks * blockSize; slot++)
    for (let head = 0; head < heads; head++)
      for (let piece = 0; piece < pieces; piece++)
        memory[addressOf(layout, slot, head, piece)] = { slot, head, piece, token: slots.indexOf(slot) };
  const cellX = (address) => stripX + (address % perBlock) * cellWidth;
  memory.forEach(({ slot, head, piece, token }, address) => {
    const y = blockY(Math.floor(address / perBlock));
    const label = token < 0 ? String(slot) : `h${head}.${piece}`;
    parts.push(cell(cellX(address), y, cellWidth, cellHeight, kinds[token] ?? "", label));
  });
  for (let block = 0; block < blocks; block++) {
    parts.push(text(16, blockY(block) + 17, `block ${block}`, "muted"));
    const each = groups[layout].each;
    const count = each === "slot" ? blockSize : each === "head" ? heads : heads * pieces;
    const width = (perBlock / count) * cellWidth;
    for (let at = 0; at < count; at++) {
      const first = block * blockSize;
      const label =
        each === "slot"
          ? `slot ${first + at}`
          : each === "head"
            ? `head ${at}, slots ${first} to ${first + blockSize - 1}`
            : `head ${Math.floor(at / pieces)}, piece ${at % pieces}, slots ${first} to ${first + blockSize - 1}`;
      // The last block's tokens come from below: its brackets stand above it.
      if (block === 0) parts.push(brace(stripX + at * width, blockY(block) + cellHeight + 4, width, label));
      else parts.push(brace(stripX + at * width, blockY(block) - 4, width, label, -1));
    }
  }
  slots.forEach((slot, token) => {
    const [block, row] = [Math.floor(slot / blockSize), slot % blockSize];
    const above = block === 0;
    const x = stripX + (perBlock / 2 - 2) * cellWidth;
    const y = above ? 88 : blockY(block) + 88;
    parts.push(
      text(
        x,
        above ? y - 8 : y + cellHeight + 16,
        `token ${token}: slot ${slot} = block ${block}, row ${row}`,
        "muted",
      ),
    );
    for (let head = 0; head < heads; head++)
      for (let piece = 0; piece < pieces; piece++) {
        const at = head * pieces + piece;
        const target = cellX(addressOf(layout, slot, head, piece)) + cellWidth / 2;
        parts.push(cell(x + at * cellWidth, y, cellWidth, cellHeight, kinds[token], `h${head}.${piece}`));
        const start = x + (at + 0.5) * cellWidth;
        if (above) parts.push(move(start, y + cellHeight, target, blockY(block) - 1));
        else parts.push(move(start, y, target, blockY(block) + cellHeight + 1));
      }
  });
  const width = stripX + perBlock * cellWidth + left;
  return picture(width, blockY(blocks - 1) + 144, `${layout}: where the pieces of two tokens lie`, parts);
}

/** Rows of keys and values taken out of rows of queries, keys and values. */
function stridedPicture() {
  const [tokens, columns, heads] = [3, 10, { q: 4, k: 4, v: 2 }];
  const places = [2, -1, 1];
  const parts = [
    text(
      16,
      46,
      "the buffer of the example: rows of q (4), k (4) and v (2); strides [10, 10], offsets [4, 8], slots [2, −1, 1]",
      "muted",
    ),
  ];
  const width = 26;
  const bufferY = 84;
  parts.push(text(left, bufferY - 8, "one buffer, given as key and as value", "muted"));
  for (let at = 0; at < tokens * columns; at++) {
    const column = at % columns;
    const kind = column < heads.q ? "" : column < heads.q + heads.k ? "first" : "second";
    const skipped = places[Math.floor(at / columns)] < 0 && kind !== "";
    parts.push(cell(left + at * width, bufferY, width, cellHeight, skipped ? "gone" : kind, String(at)));
  }
  for (let token = 0; token < tokens; token++)
    parts.push(
      brace(
        left + token * columns * width,
        bufferY + cellHeight + 4,
        columns * width,
        `token ${token}: stride ${columns}`,
      ),
    );
  const cacheY = 216;
  const slotWidth = 4 * width;
  const valueLeft = left + 4 * slotWidth + 60;
  for (let slot = 0; slot < 4; slot++) {
    const token = places.indexOf(slot);
    for (const [from, count, offset, kind] of [
      [left, 4, heads.q, "first"],
      [valueLeft, 2, heads.q + heads.k, "second"],
    ]) {
      for (let at = 0; at < count; at++) {
        const x = from + (slot * count + at) * width;
        const value = token * columns + offset + at;
        parts.push(cell(x, cacheY, width, cellHeight, token < 0 ? "" : kind, token < 0 ? "" : String(value)));
      }
      if (token >= 0) {
        const source = left + (token * columns + offset + count / 2) * width;
        parts.push(move(source, bufferY + cellHeight + 24, from + (slot + 0.5) * count * width, cacheY - 1));
      }
    }
  }
  for (let slot = 0; slot < 4; slot++) {
    parts.push(brace(left + slot * slotWidth, cacheY + cellHeight + 4, slotWidth, `slot ${slot}`));
    parts.push(brace(valueLeft + slot * 2 * width, cacheY + cellHeight + 4, 2 * width, `slot ${slot}`));
  }
  parts.push(
    text(left, cacheY + cellHeight + 40, "key cache", "muted"),
    text(valueLeft, cacheY + cellHeight + 40, "value cache", "muted"),
  );
  return picture(left * 2 + tokens * columns * width, cacheY + 84, "Nct: rows inside a wider buffer", parts);
}

/** What a run of slots holds after each compressing mode. */
function compressedPicture() {
  const [length, start, window] = [8, 2, 3];
  const width = 46;
  const parts = [
    text(
      16,
      46,
      "[num_blocks, block_size, 1, head_size]; one head of a sequence of 8 tokens, compress_lens 3, compress_seq_offset 2",
      "muted",
    ),
  ];
  const tokens = (from, to) => Array.from({ length: to - from }, (_, at) => from + at);
  const sourceX = 190;
  const inWindow = (token) => token >= start && token < start + window;
  const row = (y, name, note, cells) => {
    parts.push(text(left, y + 11, name, "mono"), text(left, y + 26, note, "muted"));
    cells.forEach(([label, kind], at) => parts.push(cell(sourceX + at * width, y, width, cellHeight, kind, label)));
  };
  row(
    66,
    "tokens",
    "as they come",
    tokens(0, length).map((token) => [String(token), inWindow(token) ? "mean" : "first"]),
  );
  parts.push(brace(sourceX + start * width, 96, window * width, "window of Rope, Omni"));
  parts.push(brace(sourceX + (length - window) * width, 116, window * width, "what Alibi keeps"));
  const run = (y, name, note, cells) => {
    row(y, name, note, cells);
    cells.forEach((_, at) =>
      parts.push(text(sourceX + (at + 0.5) * width, y + cellHeight + 13, at === 0 ? "s" : `s+${at}`, "middle muted")),
    );
  };
  const kept = (list) => list.map((token) => [String(token), "first"]);
  run(160, "Alibi, keep last", "the last 3 tokens", kept(tokens(length - window, length)));
  run(220, "Rope, mean", "the window as one mean", [
    ...kept(tokens(0, start)),
    ["mean", "mean"],
    ...kept(tokens(start + window, length)),
  ]);
  run(280, "Omni", "all but the window", kept([...tokens(0, start), ...tokens(start + window, length)]));
  run(340, "offset −1, or 0 long", "Rope and Omni keep all", kept(tokens(0, length)));
  return picture(700, 398, "Compressed: what a run of slots holds", parts);
}

/** Every picture by its file name. */
export const pictures = () => ({
  "paged-norm.svg": layoutPicture("Norm"),
  "paged-nz.svg": layoutPicture("PA_NZ"),
  "paged-nhsd.svg": layoutPicture("NHSD"),
  "paged-nct.svg": stridedPicture(),
  "paged-compressed.svg": compressedPicture(),
});

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = fileURLToPath(new URL("../docs/img/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  for (const [name, svg] of Object.entries(pictures())) writeFileSync(`${folder}${name}`, svg);
}
