// How new rows get into caches, and how caches are read by heads.
import { type Around } from "./net.js";
import { rowsAxis, rowsOf } from "./rows.js";

/** A cache as [batch, heads, rows, size]. */
export function byHeads({ net, style }: Around, name: string, isKey: boolean, count: number): string {
  const { layout = "BNSH" } = style;
  if (layout === "BSE")
    return net.transpose(net.reshape(name, 0, 0, count, isKey ? net.sizes.head : net.sizes.valueHead), 0, 2, 1, 3);
  if (layout === "BSNH") return net.transpose(name, 0, 2, 1, 3);
  return layout === "BNHS" && isKey ? net.transpose(name, 0, 1, 3, 2) : name;
}

/** New rows behind or among the old ones. */
export function grown(
  around: Around,
  rows: string,
  cache: string,
  present: string,
  isKey: boolean,
  count: number,
): string {
  const { net, style, length } = around;
  const { layout = "BNSH", growth = "concat" } = style;
  const size = isKey ? net.sizes.head : net.sizes.valueHead;
  const split = layout === "BSE" ? rows : net.reshape(rows, 0, 0, count, size);
  const laid =
    layout === "BSE" || layout === "BSNH"
      ? split
      : layout === "BNHS" && isKey
        ? net.transpose(split, 0, 2, 3, 1)
        : net.transpose(split, 0, 2, 1, 3);
  const axis = rowsAxis(style, isKey);
  const list = (of: string): string => net.op("Reshape", [of, net.ints([1])]);
  const end = (): string => list(net.op("Add", [around.before, length]));
  switch (growth) {
    case "concat":
    case "stacked":
      if (style.turned === true) {
        const [old, fresh] = [cache, laid].map((name) => net.transpose(name, 0, 2, 1, 3));
        const joined = net.op("Concat", [old, fresh], { axis: 3 - axis });
        return net.op("Transpose", [joined], { perm: [0, 2, 1, 3] }, { output: present });
      }
      if (style.half === true) {
        const [old, fresh] = [cache, laid].map((name) => net.op("Cast", [name], { to: 10 }));
        const joined = net.op("Concat", [old, fresh], { axis });
        net.op("Cast", [joined], { to: 1 }, { output: present });
        return joined;
      }
      return net.op("Concat", [cache, laid], { axis }, { output: present });
    case "scatter-rows": {
      const order = [axis, ...[0, 1, 2, 3].filter((own) => own !== axis)];
      const back = [0, 1, 2, 3].map((own) => order.indexOf(own));
      const written = net.op("ScatterND", [
        net.transpose(cache, ...order),
        net.unsqueeze(rowsOf(around), 1),
        net.transpose(laid, ...order),
      ]);
      return net.op("Transpose", [written], { perm: back }, { output: present });
    }
    case "scatter-nd": {
      const shape = net.concat(
        [net.size(cache, 0), net.ints([count]), net.op("Reshape", [length, net.ints([1])]), net.ints([1])],
        0,
      );
      const index = (of: string): string => net.op("Expand", [of, shape]);
      const samples = net.unsqueeze(net.range(net.ints([0], []), net.scalarSize(cache, 0)), 1, 2, 3);
      const indices = net.concat(
        [
          index(samples),
          index(net.ints([...Array(count).keys()], [1, count, 1, 1])),
          index(net.unsqueeze(rowsOf(around), 0, 1, 3)),
        ],
        3,
      );
      return net.op("ScatterND", [cache, indices, laid], {}, { output: present });
    }
    case "scatter-slice": {
      // cache[:, start:end] = rows, as torch.onnx writes it: numbers of all rows, cut, and a scatter along the first axis.
      const all = net.range(net.ints([0], []), net.scalarSize(cache, axis));
      const cut = net.op("Slice", [all, list(around.before), end(), net.ints([0])]);
      const order = [axis, ...[0, 1, 2, 3].filter((own) => own !== axis)];
      const indices = net.reshape(cut, -1, 1);
      const written = net.op("ScatterND", [net.transpose(cache, ...order), indices, net.transpose(laid, ...order)]);
      const back = [0, 1, 2, 3].map((own) => order.indexOf(own));
      return net.op("Transpose", [written], { perm: back }, { output: present });
    }
    case "scatter-joined": {
      const front = net.op("Slice", [cache, net.ints([0]), list(around.before), net.ints([axis])]);
      const rear = net.op("Slice", [cache, end(), net.ints([2 ** 40]), net.ints([axis])]);
      return net.op("Concat", [front, laid, rear], { axis }, { output: present });
    }
    case "scatter-elements": {
      const wide = net.unsqueeze(rowsOf(around), ...[0, 1, 2, 3].filter((own) => own !== axis));
      return net.op(
        "ScatterElements",
        [cache, net.op("Expand", [wide, net.op("Shape", [laid])]), laid],
        { axis },
        { output: present },
      );
    }
    default:
      throw new Error(`${growth} has its cache inside`);
  }
}

export function repeated({ net, style }: Around, name: string, count: number, isKey: boolean): string {
  const group = net.sizes.heads / count;
  const size = isKey ? net.sizes.head : net.sizes.valueHead;
  if (group === 1) return name;
  const repeat = style.repeat ?? "expand";
  switch (repeat) {
    case "none":
      return name;
    case "expand": {
      const wide = net.unsqueeze(name, 2);
      const shape = net.concat([net.size(name, 0), net.ints([count, group]), net.size(name, 2), net.ints([size])], 0);
      return net.reshape(net.op("Expand", [wide, shape]), 0, net.sizes.heads, -1, size);
    }
    case "tile":
      return net.reshape(
        net.op("Tile", [net.unsqueeze(name, 2), net.ints([1, 1, group, 1, 1])]),
        0,
        net.sizes.heads,
        -1,
        size,
      );
    case "concat":
      return net.reshape(
        net.concat(
          Array.from({ length: group }, () => net.unsqueeze(name, 2)),
          2,
        ),
        0,
        net.sizes.heads,
        -1,
        size,
      );
    case "gather": {
      const picked = Array.from({ length: net.sizes.heads }, (_, at) => Math.floor(at / group));
      return net.op("Gather", [name, net.ints(picked)], { axis: 1 });
    }
    case "split": {
      const heads = Array.from({ length: count }, (_, at) =>
        net.op("Slice", [name, net.ints([at]), net.ints([at + 1]), net.ints([1])]),
      );
      return net.concat(
        heads.flatMap((one) => Array.from({ length: group }, () => one)),
        1,
      );
    }
    default:
      return repeat satisfies never;
  }
}
