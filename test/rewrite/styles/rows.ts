// Rows of caches and positions of tokens: their shapes, where they begin, how they are numbered.
import { type Style, type StyleSizes } from "./style.js";
import { type Around, Net } from "./net.js";

export const isGrowing = ({ growth = "concat" }: Style): boolean => !growth.startsWith("scatter");

export function cacheShape(
  style: Style,
  sizes: StyleSizes,
  count: number,
  isKey: boolean,
  rows: string,
): (string | number)[] {
  const { batch = "batch", layout = "BNSH" } = style;
  const length = isGrowing(style) && style.buffer !== true ? rows : sizes.static;
  const size = isKey ? sizes.head : sizes.valueHead;
  if (layout === "BSE") return [batch, length, count * size];
  if (layout === "BSNH") return [batch, length, count, size];
  return layout === "BNHS" && isKey ? [batch, count, size, length] : [batch, count, length, size];
}

export const rowsAxis = ({ layout = "BNSH" }: Style, isKey: boolean): number =>
  layout === "BNSH" || (layout === "BNHS" && !isKey) ? 2 : layout === "BNHS" ? 3 : 1;

export function rowsBefore(net: Net, style: Style, past: string): string {
  if (isGrowing(style)) return net.scalarSize(past, rowsAxis(style, true));
  if (style.counter === "start") return "start_pos";
  return style.counter === "arange"
    ? net.ints([0], [])
    : net.op("Gather", ["cache_position", net.ints([0], [])], { axis: 0 });
}

/** Rows of the new tokens, [sequence]. */
export const rowsOf = ({ net, style, length, before }: Around): string =>
  !isGrowing(style) && (style.counter ?? "cache_position") === "cache_position"
    ? "cache_position"
    : net.op("Add", [net.range(net.ints([0], []), length), before]);

export function positionsOf(around: Around): string | undefined {
  const { net, style, length, before } = around;
  const positions = style.positions ?? "input";
  switch (positions) {
    case "input":
    case "flat":
    case "one-row":
      return "position_ids";
    case "list":
      return rowsOf(around);
    case "row":
      return net.unsqueeze(rowsOf(around), 0);
    case "cumsum": {
      const counted = net.op("Sub", [net.op("CumSum", ["attention_mask", net.ints([1], [])]), net.ints([1], [])]);
      const clipped = net.op("Max", [counted, net.ints([0], [])]);
      const start = net.op("Reshape", [before, net.ints([1])]);
      const end = net.op("Reshape", [net.op("Add", [before, length]), net.ints([1])]);
      return net.op("Slice", [clipped, start, end, net.ints([1])]);
    }
    default:
      return undefined;
  }
}

/** Rows of a table of positions that are cut out, or looked up among those of all rows. */
export function positionRows({ net, style, length, before }: Around, width: number): string | undefined {
  const list = (of: string): string => net.op("Reshape", [of, net.ints([1])]);
  const total = net.op("Add", [before, length]);
  const table = (): string => net.weight([1, 1, net.sizes.positions, width]);
  switch (style.positions) {
    case "cut": {
      const rows = net.op("Squeeze", [table(), net.ints([0, 1])]);
      return net.op("Slice", [rows, list(before), list(total), net.ints([0])]); // [sequence, width]
    }
    case "cut-row":
      return net.op("Squeeze", [net.op("Slice", [table(), list(before), list(total), net.ints([2])]), net.ints([1])]);
    case "looked-up": {
      const first = net.op("Slice", [table(), net.ints([0]), list(total), net.ints([2])]);
      return net.op("Gather", [net.op("Squeeze", [first, net.ints([0, 1])]), "position_ids"], { axis: 0 });
    }
    case "computed": {
      const rows = net.op("Cast", [net.range(net.ints([0], []), total)], { to: 1 });
      const angles = net.op("Mul", [net.unsqueeze(rows, 1), net.unsqueeze(net.weight([width]), 0)]);
      return net.op("Gather", [net.op("Cos", [angles]), "position_ids"], { axis: 0 });
    }
    default:
      return undefined;
  }
}
