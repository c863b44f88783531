/** A pool as text: a row of blocks with their owners and how full they are, then each text with its blocks. */
import { bytesText } from "#insitu/base/bytes-text.js";
import { fitMiddle } from "../pictures/draw-svg.js";
import { poolSummary, type PoolView } from "./pages-view.js";

/** Characters of one block. */
const cellWidth = 6;
const bars = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/** A pool in lines of at most `columns` characters. */
export function poolText(view: PoolView, columns = 80): string {
  const { statistics, blockBytes, blocks, texts } = view;
  const perLine = Math.max(4, Math.floor((columns - 8) / cellWidth));
  const lines = [
    `the pool: ${bytesText(statistics.blocks * blockBytes)}, ${bytesText(blockBytes)} a block`,
    ...poolSummary(view),
    "",
  ];
  const last = blocks.findLastIndex(({ state }) => state !== "free");
  const shown = Math.min(blocks.length, Math.ceil((last + 2) / perLine) * perLine);
  for (let start = 0; start < shown; start += perLine) {
    const part = blocks.slice(start, Math.min(start + perLine, shown));
    const line = (label: string, cell: (block: (typeof part)[number]) => string): string =>
      `${label.padEnd(8)}${part.map((block) => cell(block).padEnd(cellWidth)).join("")}`.trimEnd();
    lines.push(
      line("block", ({ block }) => String(block)),
      line("used by", ({ state, letters }) =>
        state === "used" ? owners(letters) : state === "kept" ? "kept" : "free",
      ),
      line("filled", ({ state, rows }) =>
        state === "free" ? "·····" : fill(rows / statistics.blockSize, state === "kept"),
      ),
      "",
    );
  }
  if (shown < blocks.length) lines.push(`blocks ${shown} to ${blocks.length - 1} are free`, "");
  const names = Math.max(...texts.map(({ letter }) => letter.length), 1);
  for (const { letter, text, rows, table, shared, with: others } of texts) {
    const common = shared === 0 ? "none shared" : `${shared} shared with ${others.join(", ")}`;
    lines.push(
      `${letter.padEnd(names)}  ${fitMiddle(JSON.stringify(text), columns - names - 2)}`,
      `${" ".repeat(names)}  ${rows} rows in ${table.length} blocks (${common}): ${runs(table)}`,
    );
  }
  return lines.join("\n");
}

const owners = (letters: readonly string[]): string => {
  const joined = letters.join("");
  return joined.length < cellWidth ? joined : `${letters[0]}+${letters.length - 1}`;
};

function fill(share: number, kept: boolean): string {
  const eighths = Math.round(share * (cellWidth - 1) * 8);
  if (kept) return "░".repeat(cellWidth - 1);
  const rest = eighths % 8;
  return `${bars[8].repeat(Math.floor(eighths / 8))}${rest === 0 ? "" : bars[rest]}`;
}

/** `0–4, 7`: neighbours together. */
function runs(table: readonly number[]): string {
  const parts: [number, number][] = [];
  for (const block of table) {
    const run = parts.at(-1);
    if (run !== undefined && run[1] === block - 1) run[1] = block;
    else parts.push([block, block]);
  }
  return parts.map(([first, end]) => (first === end ? String(first) : `${first}–${end}`)).join(", ");
}
