// The masks that exporters build, and random ones.
import { value } from "../../../src/onnx/build.js";
import { seededRandom } from "../../../src/graph/call.js";
import { type Around, Net } from "./net.js";
import { isGrowing, rowsOf } from "./rows.js";

/** What is added to scores, [batch or 1, heads or 1, sequence, rows]; undefined for nothing. */
export function maskOf(around: Around): string | undefined {
  const { net, style, length, before } = around;
  const low = net.float(-3.4e38);
  const zero = net.float(0);
  const total = isGrowing(style) ? net.op("Add", [before, length]) : net.ints([net.sizes.static], []);
  const columns = net.range(net.ints([0], []), total); // [rows]
  const rows = net.unsqueeze(rowsOf(around), 1); // [sequence, 1]
  const causal = net.op("LessOrEqual", [columns, rows]);
  const added = (visible: string): string => net.unsqueeze(net.op("Where", [visible, zero, low]), 0, 1);
  const padding = (): string => net.unsqueeze(net.op("Cast", ["attention_mask"], { to: 9 }), 1, 2); // [batch, 1, 1, rows]
  const both = (visible: string): string => net.op("Where", [net.op("And", [visible, padding()]), zero, low]);
  const mask = style.mask ?? "causal";
  switch (mask) {
    case "none":
      return undefined;
    case "causal":
      return isGrowing(style) ? both(causal) : added(causal);
    case "triu": {
      const shape = net.concat(
        [net.op("Reshape", [length, net.ints([1])]), net.op("Reshape", [total, net.ints([1])])],
        0,
      );
      const full = net.op("Expand", [net.float(-Infinity), shape]);
      const shift = net.op("Add", [before, net.ints([1], [])]);
      return net.unsqueeze(net.op("Trilu", [full, shift], { upper: 1 }), 0, 1);
    }
    case "subtract": {
      const bits = net.op("Cast", [net.op("And", [causal, padding()])], { to: 1 });
      return net.op("Mul", [net.op("Sub", [net.float(1), bits]), net.float(-10000)]);
    }
    case "window":
    case "chunk": {
      const wide = net.ints([style.window ?? 3], []);
      const near =
        style.mask === "window"
          ? net.op("Greater", [columns, net.op("Sub", [rows, wide])])
          : net.op("Equal", [net.op("Div", [columns, wide]), net.op("Div", [rows, wide])]);
      const visible = net.op("And", [causal, near]);
      return around.usesMask ? both(visible) : added(visible);
    }
    case "alibi": {
      const slopes = net.weight([1, net.sizes.heads, 1, 1], 0.2);
      const distance = net.op("Cast", [net.op("Sub", [columns, rows])], { to: 1 });
      return net.op("Add", [net.op("Mul", [slopes, distance]), both(causal)]);
    }
    case "buckets":
    case "buckets-alike": {
      // Of all rows with all rows, and of those the last; near distances have a bucket each, far ones share one.
      const [count, exact] = [5, 2];
      const all = net.unsqueeze(columns, 1);
      const behind = net.op("Neg", [net.op("Min", [net.op("Sub", [columns, all]), net.ints([0], [])])]);
      const ratio = net.op("Div", [net.op("Cast", [behind], { to: 1 }), net.float(exact)]);
      const steps = net.op("Cast", [net.op("Mul", [net.op("Log", [ratio]), net.float(2)])], { to: 7 });
      const far = net.op("Min", [net.op("Add", [steps, net.ints([exact], [])]), net.ints([count - 1], [])]);
      const bucket = net.op("Where", [net.op("Less", [behind, net.ints([exact], [])]), behind, far]);
      const found =
        mask === "buckets"
          ? net.op("Transpose", [net.op("Gather", [net.weight([count, net.sizes.heads], 1), bucket])], {
              perm: [2, 0, 1],
            })
          : // Counted from the table's end, along its second axis.
            net.op("Gather", [net.weight([1, count], 1), net.op("Sub", [bucket, net.ints([count], [])])], { axis: 1 });
      const start = net.op("Reshape", [net.op("Neg", [length]), net.ints([1])]);
      const own = net.op("Slice", [net.unsqueeze(found, 0), start, net.ints([2 ** 31 - 1]), net.ints([2])]);
      return net.op("Add", [own, both(causal)]);
    }
    case "input":
      net.inputs.push(value("mask", "float32", [style.batch ?? "batch", 1, style.tokens ?? "sequence", "total"]));
      return "mask";
    case "cumulative":
      return both(causal);
    case "padding-only":
      return net.op("Where", [padding(), zero, low]);
    case "joined-triangle": {
      // Zeros for the past beside a triangle for the new tokens, and the padding's own mask added to both.
      const own = net.range(net.ints([0], []), length);
      const lower = net.op("Less", [own, net.reshape(net.op("Add", [own, net.ints([1], [])]), -1, 1)]);
      const square = net.op("Where", [lower, zero, low]);
      const dims = [length, before].map((of) => net.op("Reshape", [of, net.ints([1])]));
      const zeros = net.op("ConstantOfShape", [net.concat(dims, 0)]);
      const wide = net.unsqueeze(net.concat([zeros, square], 1), 0, 1);
      const inverted = net.op("Sub", [
        net.float(1),
        net.unsqueeze(net.op("Cast", ["attention_mask"], { to: 1 }), 1, 2),
      ]);
      const padded = net.op("Where", [net.op("Cast", [inverted], { to: 9 }), low, inverted]);
      return net.op("Add", [padded, wide]);
    }
    case "by-position": {
      const own = net.unsqueeze(net.op("Cast", ["position_ids"], { to: 7 }), 1, 3); // [batch, 1, sequence, 1]
      return net.op("Where", [net.op("LessOrEqual", [columns, own]), zero, low]);
    }
    case "chosen-by-input":
      net.inputs.push(value("mask", "bool", [style.batch ?? "batch", 1, style.tokens ?? "sequence", "total"]));
      return net.op("Where", ["mask", zero, low]);
    case "random": {
      const visible = randomCondition(net, columns, rows, causal, seededRandom(style.maskSeed ?? 1));
      return added(visible);
    }
    case "where-scores":
      return net.unsqueeze(causal, 0, 1);
    case "tril-gather": {
      const most = net.sizes.positions;
      const bits = Array.from({ length: most * most }, (_, at) => (at % most <= Math.floor(at / most) ? 1 : 0));
      const table = net.op("Cast", [net.ints(bits, [1, 1, most, most])], { to: 9 });
      const start = net.op("Reshape", [before, net.ints([1])]);
      const end = net.op("Reshape", [total, net.ints([1])]);
      const own = net.op("Slice", [table, start, end, net.ints([2])]);
      return both(net.op("Slice", [own, net.ints([0]), end, net.ints([3])]));
    }
    default:
      return mask satisfies never;
  }
}

/** A condition on a key's row and a query's: comparisons with shifts, chunks and remainders, joined at random. */
export function randomCondition(net: Net, columns: string, rows: string, causal: string, random: () => number): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const number = (): string => net.ints([Math.floor(random() * 6) - 1], []);
  const size = (): string => net.ints([2 + Math.floor(random() * 4)], []);
  const compared = (): string => {
    const shifted = net.op(pick(["Add", "Sub"]), [rows, number()]);
    switch (pick(["behind", "behind", "near", "near", "first", "chunk", "remainder", "apart"])) {
      case "behind":
        return net.op(pick(["Less", "LessOrEqual"]), [columns, shifted]);
      case "near":
        return net.op(pick(["Greater", "GreaterOrEqual"]), [columns, net.op("Sub", [rows, size()])]);
      case "first":
        return net.op("Less", [columns, size()]);
      case "chunk": {
        const wide = size();
        return net.op("Equal", [net.op("Div", [columns, wide]), net.op("Div", [rows, wide])]);
      }
      case "remainder": {
        const wide = size();
        return net.op("Equal", [net.op("Mod", [columns, wide]), net.op("Mod", [rows, wide])]);
      }
      default:
        return net.op("Less", [net.op("Abs", [net.op("Sub", [rows, columns])]), size()]);
    }
  };
  let condition = random() < 0.8 ? causal : compared();
  for (let parts = 1 + Math.floor(random() * 3); parts > 0; parts--) {
    const other = random() < 0.2 ? net.op("Not", [compared()]) : compared();
    condition = net.op(pick(["And", "And", "Or"]), [condition, other]);
  }
  return random() < 0.7 ? net.op("And", [condition, causal]) : condition;
}
