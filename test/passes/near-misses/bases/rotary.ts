// Rotary embeddings as exporters write them out.
import { type Base, Draft, type Drawn } from "../draft.js";

const sizes = { batch: 2, sequence: 3, rows: 3, samples: 2 };

interface Form {
  readonly heads?: "first" | "behind";
  readonly pairing?: "halves" | "neighbours";
  readonly parts?: boolean;
  readonly partly?: boolean;
  /** The shape of the angles before the heads' dimension is put in. */
  readonly angles?: readonly (number | string)[];
  readonly sign?: "second" | "first" | "none";
  readonly twins?: "alike" | "other" | "crossed";
  readonly sinWidth?: number;
  readonly dims?: readonly (number | string)[];
}

function rotary({
  heads = "first",
  pairing = "halves",
  parts = false,
  partly = false,
  sign = "second",
  twins = "alike",
  ...form
}: Form = {}): Drawn {
  const g = new Draft(sizes);
  const size = 8;
  const turned = partly ? 4 : size;
  const dims = form.dims ?? (heads === "first" ? ["batch", 2, "sequence", size] : ["batch", "sequence", 2, size]);
  const x = g.input("x", dims);
  const cut = (of: string, from: number, to: number, step = 1): string =>
    g.op("Slice", [of, g.list(from), g.list(to), g.list(-1), g.list(step)]);
  const source = partly ? cut(x, 0, turned) : x;
  const angles = form.angles ?? ["sequence"];
  const half = g.input("angles", [...angles, turned / 2]);
  const pairs = (of: string): string => {
    if (parts) return of;
    if (pairing === "halves")
      return g.op("Concat", [of, twins === "alike" ? of : g.op("Mul", [of, g.constant(1.25)])], { axis: -1 });
    const single = g.op("Unsqueeze", [of, g.list(-1)]);
    const both = g.op("Concat", [single, twins === "alike" ? single : g.op("Neg", [single])], { axis: -1 });
    return g.op("Reshape", [both, g.list(...angles.map(() => 0), turned)]);
  };
  const place = angles.length === 1 ? (heads === "first" ? [0, 1] : [0, 2]) : heads === "first" ? [1] : [2];
  const full = pairs(half);
  const cos = g.op("Unsqueeze", [g.op("Cos", [full]), g.list(...place)]);
  let sin = g.op("Unsqueeze", [g.op("Sin", [twins === "crossed" ? g.op("Neg", [full]) : full]), g.list(...place)]);
  if (form.sinWidth !== undefined) sin = cut(sin, 0, form.sinWidth);
  const [a, b] =
    pairing === "halves"
      ? [cut(source, 0, turned / 2), cut(source, turned / 2, turned)]
      : [cut(source, 0, turned, 2), cut(source, 1, turned, 2)];
  const joined = (first: string, second: string): string => {
    if (pairing === "halves") return g.op("Concat", [first, second], { axis: -1 });
    const both = g.op("Concat", [g.op("Unsqueeze", [first, g.list(-1)]), g.op("Unsqueeze", [second, g.list(-1)])], {
      axis: -1,
    });
    return g.op("Reshape", [both, g.list(0, 0, 0, turned)]);
  };
  let y: string;
  if (parts)
    y = joined(
      g.op("Sub", [g.op("Mul", [a, cos]), g.op("Mul", [b, sin])]),
      g.op("Add", [g.op("Mul", [a, sin]), g.op("Mul", [b, cos])]),
    );
  else {
    const again =
      sign === "second" ? joined(g.op("Neg", [b]), a) : sign === "first" ? joined(b, g.op("Neg", [a])) : joined(b, a);
    y = g.op("Add", [g.op("Mul", [source, cos]), g.op("Mul", [again, sin])]);
  }
  if (partly) y = g.op("Concat", [y, cut(x, turned, size)], { axis: -1 });
  return g.drawn(y);
}

const others: Readonly<Record<string, Drawn>> = {
  "the angles of a pair differ": rotary({ twins: "other" }),
  "the sines are of other angles": rotary({ twins: "crossed" }),
  "the first half is negated": rotary({ sign: "first" }),
  "nothing is negated": rotary({ sign: "none" }),
  "angles for each sample": rotary({ angles: ["batch", "sequence"] }),
  "angles for one sample": rotary({ angles: [1, "sequence"] }),
  "angles for rows of another name": rotary({ angles: ["rows"] }),
  "angles for samples of another name": rotary({ angles: ["samples", "sequence"] }),
  "heads behind the length": rotary({ heads: "behind" }),
  "heads behind the length, angles for each sample": rotary({ heads: "behind", angles: ["batch", "sequence"] }),
  "neighbours whose angles differ": rotary({ pairing: "neighbours", twins: "other" }),
  "one sine for all pairs": rotary({ sinWidth: 1 }),
  "one sine for all pairs, by parts": rotary({ parts: true, sinWidth: 1 }),
  "as many heads as rows": rotary({ dims: ["batch", 3, "sequence", 8] }),
  "heads without a number": rotary({ dims: ["batch", "rows", "sequence", 8] }),
  "angles for heads": rotary({ dims: ["batch", 3, 1, 8] }),
  "one row": rotary({ dims: ["batch", 2, 1, 8], angles: [1] }),
  "no sample": rotary({ dims: [2, "sequence", 8] }),
  "neighbours, partly": rotary({ pairing: "neighbours", partly: true }),
  "partly, heads behind": rotary({ partly: true, heads: "behind" }),
};

const base = (form: string, how: Form, more: Partial<Base> = {}): Base => ({
  pass: "fuse-rotary-embedding",
  form,
  makes: "RotaryEmbedding",
  drawn: rotary(how),
  ...more,
});

export const rotaryBases: readonly Base[] = [
  base("halves", {}, { others }),
  base("neighbours", { pairing: "neighbours" }),
  base("by parts", { parts: true }),
  base("partly", { partly: true }),
];
