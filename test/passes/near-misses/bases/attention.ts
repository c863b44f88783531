// Attention as exporters write it out, with heads repeated for groups and with Transposes around it.
import { float } from "../../../../src/onnx/build.js";
import { type Base, Draft, type Drawn } from "../draft.js";

const sizes = { batch: 2, queries: 3, keys: 5, other: 2, samples: 2 };

interface Form {
  readonly scale?: "scores" | "queries" | "keys" | "none" | "late";
  readonly mask?: readonly (keyof typeof sizes | number)[];
  readonly choice?: "add" | "where" | "infinite" | "guarded" | "fed";
  readonly cap?: readonly [number, number];
  readonly joined?: boolean;
  readonly part?: readonly number[];
  readonly keyHeads?: number;
  readonly valueSize?: number;
  readonly batchOfKeys?: number | string;
  readonly cast?: number;
  readonly shown?: "weights" | "scores";
}

function written({ scale = "scores", choice = "add", joined = false, ...form }: Form = {}): Drawn {
  const g = new Draft(sizes);
  const [heads, size] = [2, 4];
  const { keyHeads = heads, valueSize = size, batchOfKeys = "batch" } = form;
  const factor = (of: string): string => g.op("Mul", [of, g.constant(0.375)]);
  const whole = {
    q: g.input("q", ["batch", heads, joined ? 3 : "queries", size]),
    k: g.input("k", [batchOfKeys, keyHeads, joined ? 5 : "keys", size]),
    v: g.input("v", [batchOfKeys, keyHeads, joined ? 5 : "keys", valueSize]),
  };
  const flat = (of: string, rows: number): string => (joined ? g.op("Reshape", [of, g.list(-1, rows, size)]) : of);
  let q = flat(whole.q, 3);
  let k = flat(whole.k, 5);
  if (scale === "queries") q = factor(q);
  if (scale === "keys") k = factor(k);
  let scores = g.op("MatMul", [q, g.op("Transpose", [k], { perm: joined ? [0, 2, 1] : [0, 1, 3, 2] })]);
  if (scale === "scores") scores = factor(scores);
  if (joined) scores = g.op("Reshape", [scores, g.list(...(form.part ?? [-1, 2]), 3, 5)]);
  const capped = (): void => {
    if (form.cap !== undefined)
      scores = g.op("Mul", [g.op("Tanh", [g.op("Div", [scores, g.constant(form.cap[0])])]), g.constant(form.cap[1])]);
  };
  capped();
  if (form.mask !== undefined) {
    const count = form.mask.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : sizes[dim]), 1);
    const bits = Array.from({ length: count }, (_, at) => ((at * 7) % 5 > 1 ? 1 : 0));
    if (choice === "fed") scores = g.op("Add", [scores, g.input("mask", form.mask)]);
    else {
      const mask = g.input("mask", form.mask, "bool", bits);
      const low = g.constant(choice === "add" ? -1e9 : choice === "where" ? -3e38 : -Infinity);
      scores =
        choice === "where"
          ? g.op("Where", [mask, scores, low])
          : g.op("Add", [scores, g.op("Where", [mask, g.constant(0), low])]);
    }
  }
  if (scale === "late") scores = factor(scores);
  if (form.cast !== undefined) scores = g.op("Cast", [scores], { to: form.cast });
  let weights = g.op("Softmax", [scores], { axis: -1 });
  if (choice === "guarded") weights = g.op("Where", [g.op("IsNaN", [weights]), g.constant(0), weights]);
  if (form.cast !== undefined) weights = g.op("Cast", [weights], { to: 1 });
  const right = flat(whole.v, 5);
  let y = g.op("MatMul", [joined ? g.op("Reshape", [weights, g.list(-1, 3, 5)]) : weights, right]);
  if (joined) y = g.op("Reshape", [y, g.list(-1, 2, 3, 4)]);
  return g.drawn(y, ...(form.shown === "weights" ? [weights] : form.shown === "scores" ? [scores] : []));
}

const masks: Readonly<Record<string, NonNullable<Form["mask"]>>> = {
  "for all": ["queries", "keys"],
  "of numbers": [3, 5],
  "for each sample": ["batch", 1, "queries", "keys"],
  "for samples of another name": ["samples", 1, "queries", "keys"],
  "for each head": [1, 2, "queries", "keys"],
  "for keys": ["keys"],
  "for keys of each sample": ["batch", 1, 1, "keys"],
  "for queries": ["queries", 1],
  "one number": [1],
  "of no dimensions": [],
  "of three dimensions": [2, "queries", "keys"],
};

const misses: Record<string, Drawn> = {
  "the scale is the queries'": written({ scale: "queries" }),
  "the scale is the keys'": written({ scale: "keys" }),
  "no scale": written({ scale: "none" }),
  "a scale behind the mask": written({ scale: "late", mask: [3, 5] }),
  "one head for all": written({ keyHeads: 1 }),
  "values of another size": written({ valueSize: 6 }),
  "keys of one sample": written({ batchOfKeys: 1 }),
  "keys of samples with another name": written({ batchOfKeys: "samples" }),
  "scores in float64": written({ cast: 11 }),
  "scores in float16": written({ cast: 10 }),
  "two caps": written({ cap: [2, 2.5] }),
  "a cap behind nothing": written({ cap: [2, 2] }),
  "weights are shown": written({ shown: "weights" }),
  "scores are shown": written({ shown: "scores" }),
};
for (const [name, mask] of Object.entries(masks))
  for (const choice of ["add", "where", "guarded", "fed"] as const)
    misses[`a mask ${name}, ${choice}`] = written({ mask, choice });

/** Heads of keys and values repeated for groups of two, before an Attention. */
function repeated(
  how: "expand" | "gather" | "tile" | "concat" | "crossed" | "gatherCrossed" | "once",
  more: {
    readonly values?: "once" | "other";
    readonly queries?: number;
    readonly past?: boolean;
  } = {},
): Drawn {
  const g = new Draft(sizes);
  const heads = how === "once" ? 1 : 2;
  const q = g.input("q", ["batch", more.queries ?? 4, "queries", 4]);
  const [k, v] = [
    g.input("k", ["batch", heads, "keys", 4]),
    g.input("v", ["batch", more.values === "other" ? 4 : heads, "keys", 4]),
  ];
  const wide = (of: string): string => {
    const open = (axis: number): string => g.op("Unsqueeze", [of, g.list(axis)]);
    const close = (made: string): string => g.op("Reshape", [made, g.list(0, 4, -1, 4)]);
    switch (how) {
      case "expand":
        return close(g.op("Expand", [open(2), g.list(1, 1, 2, 1, 1)]));
      case "crossed":
        return close(g.op("Expand", [open(1), g.list(1, 2, 1, 1, 1)]));
      case "tile":
        return g.op("Tile", [of, g.list(1, 2, 1, 1)]);
      case "concat": {
        const one = open(2);
        return close(g.op("Concat", [one, one], { axis: 2 }));
      }
      case "gather":
        return g.op("Gather", [of, g.list(0, 0, 1, 1)], { axis: 1 });
      case "gatherCrossed":
        return g.op("Gather", [of, g.list(0, 1, 0, 1)], { axis: 1 });
      case "once":
        return g.op("Expand", [of, g.list(1, 4, 1, 1)]);
    }
  };
  const values = more.values === "other" ? v : wide(v);
  if (more.past !== true) return g.drawn(g.op("Attention", [q, wide(k), values], { scale: float(0.5) }));
  const past = [g.input("pk", ["batch", 4, 2, 4]), g.input("pv", ["batch", 4, 2, 4])];
  return g.drawn(...g.ops(3, "Attention", [q, wide(k), values, undefined, ...past], { scale: float(0.5) }));
}

const repeats = (how: "expand" | "gather" | "concat"): Base => ({
  pass: "fold-repeated-heads",
  form: how,
  takes: how === "expand" ? "Expand" : how === "gather" ? "Gather" : "Concat",
  drawn: repeated(how),
  ...(how === "expand"
    ? {
        others: {
          "heads in turn": repeated("crossed"),
          "heads in turn, by number": repeated("gatherCrossed"),
          "heads in turn, by Tile": repeated("tile"),
          "one head": repeated("once"),
          "values are not repeated": repeated("expand", { values: "other" }),
          "twice as many queries": repeated("expand", { queries: 8 }),
          "a past inside": repeated("expand", { past: true }),
          "a past inside, by number": repeated("gather", { past: true }),
        },
      }
    : {}),
});

/** Heads brought to the front for an Attention, and back. */
function packed(
  more: {
    readonly rotary?: boolean;
    readonly target?: "join" | "swap" | "flat";
    readonly mask?: boolean;
    readonly past?: boolean;
    readonly back?: readonly number[];
    readonly valueSize?: number;
  } = {},
): Drawn {
  const g = new Draft(sizes);
  const front = (name: string, heads: number, length: string, size = 4): string => {
    const x = g.input(name, ["batch", length, heads * size]);
    return g.op("Transpose", [g.op("Reshape", [x, g.list(0, 0, heads, size)])], { perm: [0, 2, 1, 3] });
  };
  const tables = more.rotary === true ? [g.weights(2, 3, 2), g.weights(2, 3, 2)] : [];
  const turned = (of: string): string => (more.rotary === true ? g.op("RotaryEmbedding", [of, ...tables]) : of);
  const q = turned(front("q", 4, "queries"));
  const k = turned(front("k", 2, more.rotary === true ? "queries" : "keys"));
  const v = front("v", 2, more.rotary === true ? "queries" : "keys", more.valueSize);
  const operands = [q, k, v, more.mask === true ? g.weights(3, 5) : undefined];
  if (more.past === true) operands.push(g.input("pk", ["batch", 2, 2, 4]), g.input("pv", ["batch", 2, 2, 4]));
  while (operands.at(-1) === undefined) operands.pop();
  const outputs = g.ops(more.past === true ? 3 : 1, "Attention", operands, { scale: float(0.5) });
  const back = g.op("Transpose", [outputs[0]], { perm: more.back ?? [0, 2, 1, 3] });
  const shape = { join: [0, 0, -1], swap: [3, 2, -1], flat: [1, -1, 16] }[more.target ?? "join"];
  return g.drawn(g.op("Reshape", [back, g.list(...shape)]), ...outputs.slice(1));
}

export const attentionBases: readonly Base[] = [
  { pass: "fuse-attention", form: "plain", makes: "Attention", drawn: written(), others: misses },
  {
    pass: "fuse-attention",
    form: "a mask",
    makes: "Attention",
    drawn: written({ mask: ["batch", 1, "queries", "keys"] }),
  },
  { pass: "fuse-attention", form: "a cap", makes: "Attention", drawn: written({ cap: [2, 2] }) },
  {
    pass: "fuse-attention",
    form: "batch and heads joined",
    makes: "Attention",
    drawn: written({ joined: true, mask: [1, 1, 3, 5] }),
    others: {
      "parted in other heads": written({ joined: true, part: [2, -1] }),
      "parted with a mask for samples": written({ joined: true, mask: [2, 1, 3, 5] }),
    },
  },
  repeats("expand"),
  repeats("gather"),
  repeats("concat"),
  {
    pass: "pack-attention-heads",
    form: "plain",
    takes: "Transpose",
    drawn: packed(),
    others: {
      "samples and rows change places": packed({ target: "swap" }),
      "samples and rows are joined": packed({ target: "flat" }),
      "the result is turned otherwise": packed({ back: [0, 1, 2, 3] }),
      "the result is turned in pairs": packed({ back: [0, 2, 3, 1] }),
      "a mask": packed({ mask: true }),
      "a past": packed({ past: true }),
      "values of another size": packed({ valueSize: 6 }),
    },
  },
  { pass: "pack-attention-heads", form: "turned", takes: "Transpose", drawn: packed({ rotary: true }) },
];
