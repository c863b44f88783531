/** How the rows of a sequence that stay come together in its blocks: which blocks go, which stay whole, which rows move. Pure. */
import { checkList } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import { valueText } from "../base/value-text.js";

/** What keeping some rows comes to. Columns are those of the table before. */
export interface KeepPlan {
  /** Columns without a row that stays. */
  readonly gone: readonly number[];
  /** The other columns, in the order in which their blocks hold the rows then; those at the end are empty. */
  readonly order: readonly number[];
  /** Columns whose blocks are written. */
  readonly written: readonly number[];
  /** Row i of the blocks in order becomes what row `sources[i]` was. */
  readonly sources: readonly number[];
  /** Rows whose source is another one. */
  readonly moving: readonly number[];
}

/** Plans to keep `rows`, in ascending order, of a table with blocks of `blockSize`; `isShared` tells columns that must be copied first. */
export function planKeep(
  rows: readonly number[],
  columns: number,
  blockSize: number,
  isShared: (column: number) => boolean,
): KeepPlan {
  const columnOf = (row: number): number => Math.floor(row / blockSize);
  const left = new Set(rows.map(columnOf));
  const gone = Array.from({ length: columns }, (_, column) => column).filter((column) => !left.has(column));
  const parts = Array.from({ length: Math.ceil(rows.length / blockSize) }, (_, at) =>
    rows.slice(at * blockSize, (at + 1) * blockSize),
  );
  const inPlace = (own: readonly number[], column: number): number =>
    own.filter((row, at) => row === column * blockSize + at).length;
  // Rows that make up a block as they lie keep that very block.
  const whole = parts.map((own) => {
    const column = columnOf(own[0]);
    return inPlace(own, column) === own.length && left.delete(column) ? column : undefined;
  });
  // The others take the one that spares a copy, and then the one that spares moves.
  const targets = parts.map((own, at) => {
    const column =
      whole[at] ??
      [...left].reduce((a, b) => {
        const better = Number(isShared(a)) - Number(isShared(b)) || inPlace(own, b) - inPlace(own, a);
        return better > 0 ? b : a;
      });
    left.delete(column);
    return column;
  });
  const order = [...targets, ...left];
  const places = new Map(order.map((column, at) => [column, at]));
  const sources = rows.map((row) => places.get(columnOf(row))! * blockSize + (row % blockSize));
  const moving = sources.flatMap((source, row) => (source === row ? [] : [row]));
  return { gone, order, sources, moving, written: [...new Set(moving.map((row) => order[columnOf(row)]))] };
}

/** Throws for rows that are not those of a sequence, in order and each once. */
export function checkKept(name: string, rows: readonly number[], length: number): void {
  checkList("keep: the rows", rows);
  const wrong = rows.findIndex(
    (row, at) => !Number.isSafeInteger(row) || row < 0 || row >= length || row <= (rows[at - 1] ?? -1),
  );
  if (wrong >= 0)
    throw new InsituError(
      "invalid-argument",
      `sequence "${name}" has ${length} rows; those to keep must be named in order and once, got ${valueText(rows[wrong])}`,
    );
}
