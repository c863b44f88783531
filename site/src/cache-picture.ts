/** The cache as a picture: blocks of rows, each row a cell, filled where it lies. Knows what a cell is, where it is drawn, and what it is called. */
import type { BlockUse, CacheFacts, TextStats } from "./hosts/host.js";

/** What a cell shows. */
export type CellKind = BlockUse | "reused" | "read" | "written" | "evicted";

/** The text that is drawn on top of the pool: the one in the making, or the last. */
export interface DrawnText {
  readonly stats: TextStats;
  /** Its blocks, in order. */
  readonly blocks: readonly number[];
}

/** One block as it is drawn. */
interface DrawnBlock {
  readonly use: BlockUse;
  readonly rows: number;
  /** Which of the text's blocks it is. */
  readonly column: number | undefined;
  readonly isEvicted: boolean;
}

/** Everything that is drawn. */
export interface Picture {
  readonly blockSize: number;
  readonly blocks: readonly DrawnBlock[];
  readonly text: DrawnText | undefined;
}

/** The picture of a pool, or of one cache of rows where there is none. */
export function pictureOf(
  facts: CacheFacts | undefined,
  context: number,
  text: DrawnText | undefined,
  evicted: ReadonlySet<number>,
): Picture {
  const blockSize = facts?.blockSize ?? 16;
  const columns = new Map(text?.blocks.map((block, column) => [block, column]));
  const blocks =
    facts === undefined
      ? Array.from({ length: Math.ceil(context / blockSize) }, (_, at) => ({
          use: "free" as const,
          rows: 0,
          column: text === undefined ? undefined : at,
          isEvicted: false,
        }))
      : facts.blocks.map(({ use, rows }, at) => ({ use, rows, column: columns.get(at), isEvicted: evicted.has(at) }));
  return { blockSize, blocks, text };
}

/** What the row of a block shows. */
export function cellOf(
  { blockSize, blocks, text }: Picture,
  block: number,
  row: number,
): { readonly kind: CellKind; readonly token: number | undefined } {
  const { use, rows, column, isEvicted } = blocks[block];
  if (column !== undefined && text !== undefined) {
    const token = column * blockSize + row;
    const { reusedTokens, promptTokens, newTokens } = text.stats;
    // The last token is drawn, and read with the next one.
    const filled = Math.max(promptTokens, promptTokens + newTokens - 1);
    if (token < filled) {
      if (use === "shared") return { kind: "shared", token };
      return { kind: token < reusedTokens ? "reused" : token < promptTokens ? "read" : "written", token };
    }
    return { kind: isEvicted ? "evicted" : "free", token: undefined };
  }
  return { kind: row < rows ? use : isEvicted ? "evicted" : "free", token: undefined };
}

/** Where blocks and cells lie. */
export interface Grid {
  readonly across: number;
  readonly cell: number;
  readonly gap: number;
  readonly side: number;
  readonly height: number;
  /** Cells of a block side by side. */
  readonly inBlock: number;
}

/** Room around all blocks: the mark on a cell is larger than the cell. */
const edge = 2;

export function gridOf({ blocks, blockSize }: Picture, width: number): Grid {
  const inBlock = Math.ceil(Math.sqrt(blockSize));
  const least = 4;
  const inside = width - 2 * edge;
  // In a panel of usual width seven pixels; the letters around are larger in a wider one.
  for (let cell = Math.max(7, Math.floor(width / 48)); ; cell--) {
    const side = inBlock * (cell + 1) - 1;
    const across = Math.max(1, Math.floor((inside + least) / (side + least)));
    // What is left of the width lies between the blocks.
    const gap = across === 1 ? least : Math.min(2 * least, (inside - across * side) / (across - 1));
    const height = Math.ceil(blocks.length / across) * (side + gap) - gap + 2 * edge;
    if (height <= Math.max(200, width * 0.6) || cell === 2) return { across, cell, gap, side, height, inBlock };
  }
}

/** Whole pixels, so that cells are sharp. */
const placeOf = ({ across, side, gap }: Grid, block: number): readonly [number, number] => [
  edge + Math.round((block % across) * (side + gap)),
  edge + Math.round(Math.floor(block / across) * (side + gap)),
];

export interface Colours {
  readonly cells: Readonly<Record<CellKind, string>>;
  readonly mark: string;
}

/** What a canvas shows: with a new picture only the cells that changed are painted. */
export class Painting {
  #colours = "";
  #cells: string[] = [];
  #marked: number | undefined;

  /** The canvas is empty, or another size. */
  forget(): void {
    this.#cells = [];
  }

  /** Draws a picture. `marked` is the token that is looked at. */
  draw(
    context: CanvasRenderingContext2D,
    picture: Picture,
    grid: Grid,
    { cells: colours, mark }: Colours,
    marked: number | undefined,
  ): void {
    const { canvas } = context;
    const { cell, inBlock } = grid;
    const all = [mark, ...Object.values(colours), grid.across, grid.gap, cell, picture.blocks.length].join();
    // A mark lies over its neighbours: they are painted again without it.
    if (all !== this.#colours || marked !== this.#marked || this.#marked !== undefined) this.#cells = [];
    [this.#colours, this.#marked] = [all, marked];
    if (this.#cells.length === 0) {
      const scale = canvas.height / grid.height;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, canvas.width, canvas.height);
    }
    for (let block = 0, at = 0; block < picture.blocks.length; block++) {
      const [left, top] = placeOf(grid, block);
      for (let row = 0; row < picture.blockSize; row++, at++) {
        const { kind, token } = cellOf(picture, block, row);
        const isMarked = token !== undefined && token === marked;
        if (this.#cells[at] === kind && !isMarked) continue;
        this.#cells[at] = kind;
        const x = left + (row % inBlock) * (cell + 1);
        const y = top + Math.floor(row / inBlock) * (cell + 1);
        context.fillStyle = colours[kind];
        context.fillRect(x, y, cell, cell);
        if (!isMarked) continue;
        context.strokeStyle = mark;
        context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, cell + 2, cell + 2);
      }
    }
  }
}

/** The block and the row below a point. */
export function cellAt(
  picture: Picture,
  grid: Grid,
  x: number,
  y: number,
): { readonly block: number; readonly row: number } | undefined {
  const { across, side, gap, cell, inBlock } = grid;
  const column = Math.floor((x - edge) / (side + gap));
  const block = Math.floor((y - edge) / (side + gap)) * across + column;
  if (column < 0 || column >= across || block < 0 || block >= picture.blocks.length) return undefined;
  const [left, top] = placeOf(grid, block);
  const [right, down] = [Math.floor((x - left) / (cell + 1)), Math.floor((y - top) / (cell + 1))];
  const row = down * inBlock + right;
  const isInside = right >= 0 && down >= 0 && right < inBlock && row < picture.blockSize;
  return isInside ? { block, row } : undefined;
}
