/** A table as lines of text: titles, then a line for each row. */

/** A column: its title, and what it says of a row. */
export type Column<Row> = readonly [title: string, of: (row: Row) => string];

/** The lines; the first columns begin where their titles do, numbers in the others end where they do. */
export function tableLines<Row>(columns: readonly Column<Row>[], rows: readonly Row[], named: number): string[] {
  const cells = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, of]) => of(row)))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at].length)));
  const padded = (cell: string, at: number): string =>
    at < named ? cell.padEnd(widths[at]) : cell.padStart(widths[at]);
  return cells.map((row) => row.map(padded).join("  ").trimEnd());
}
