/**
 * Single operators on a device, in graphs of many: what one more of them takes, which is the difference of two graphs' times, so that what a
 * run costs by itself does not count. The write of a row into a cache; attention of a decode step beside the device's copy speed.
 */
import { RandomWeights } from "../../demo/random-weights.js";
import { InferenceSession } from "#insitu/entry/node.js";
import { buildModel, float, initializer, node, value } from "#insitu/onnx/build.js";
import type { ModelNode, ModelValue } from "#insitu/onnx/model.js";
import { writeModel } from "#insitu/onnx/write.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import { type Contestant, type Group, likeTheFirst, type Running, type Setting } from "../load.js";
import { integers, type Tensors } from "../work.js";
import { type Copier, startCopier } from "./gpu.js";
import type { DeviceSizes } from "./sizes.js";

/** What one graph is: its layers' caches are [samples, heads, rows, head] of float16. */
interface Chain {
  readonly layers: number;
  readonly samples: number;
  /** Query heads, or 0 where nothing is attended. */
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly rows: number;
}

const names = ["key", "value"] as const;

/** The output of a chain that attends to nothing. */
const written = "written";

/** Layers that write a row into each of their caches and, where there are query heads, attend over them: one's result is the next one's query. */
function chainModel({ layers, samples, heads, keyValueHeads, headSize, rows }: Chain): Uint8Array {
  const nodes: ModelNode[] = [];
  const caches = (name: string): ModelValue[] =>
    Array.from({ length: layers }, (_, layer) =>
      names.map((which) => value(`${name}.${layer}.${which}`, "float16", [samples, keyValueHeads, rows, headSize])),
    ).flat();
  let query = "query";
  for (let layer = 0; layer < layers; layer++) {
    for (const which of names)
      nodes.push(
        node(
          "TensorScatter",
          [`past.${layer}.${which}`, which, "write_indices"],
          [`present.${layer}.${which}`],
          { axis: 2 },
          { name: `write.${layer}.${which}` },
        ),
      );
    if (heads === 0) continue;
    const operands = [query, `present.${layer}.key`, `present.${layer}.value`, "", "", "", "nonpad_kv_seqlen"];
    const attributes = { is_causal: 1, scale: float(1 / Math.sqrt(headSize)) };
    nodes.push(node("Attention", operands, [`attended.${layer}`], attributes, { name: `attention.${layer}` }));
    query = `attended.${layer}`;
  }
  // A row of the last cache is what is waited for where nothing is attended.
  const bounds = [
    initializer("from", "int64", [0n, 0n], [2]),
    initializer("to", "int64", [1n, 1n], [2]),
    initializer("along", "int64", [1n, 2n], [2]),
  ];
  if (heads === 0)
    nodes.push(node("Slice", [`present.${layers - 1}.value`, "from", "to", "along"], [written], {}, { name: written }));
  const row = (which: string): ModelValue => value(which, "float16", [samples, keyValueHeads, 1, headSize]);
  const attending = heads > 0;
  return writeModel(
    buildModel({
      opset: 24,
      inputs: [
        ...(attending ? [value("query", "float16", [samples, heads, 1, headSize])] : []),
        row("key"),
        row("value"),
        value("write_indices", "int64", [samples]),
        ...(attending ? [value("nonpad_kv_seqlen", "int64", [samples])] : []),
        ...caches("past"),
      ],
      outputs: [
        attending
          ? value(query, "float16", [samples, heads, 1, headSize])
          : value(written, "float16", [samples, 1, 1, headSize]),
        ...caches("present"),
      ],
      nodes,
      initializers: attending ? [] : bounds,
    }),
  );
}

/** float16 of some contents. */
const contents = (seed: number, dims: readonly number[]): Tensor => {
  const { data } = new RandomWeights(seed).values("contents", "float16", dims, 1);
  return new Tensor("float16", data as Uint16Array, dims);
};

/** A chain that runs: `run(rows)` writes row `rows - 1` and attends over that many. */
interface RunningChain {
  run(rows: number): Promise<Tensors>;
  release(): Promise<void>;
}

async function startChain(chain: Chain, { backend }: Setting): Promise<RunningChain> {
  const { layers, samples, heads, keyValueHeads, headSize } = chain;
  const session = await InferenceSession.create(chainModel(chain), {
    inPlace: "require",
    ...(backend === undefined ? {} : { backend }),
  });
  // Rows that nobody wrote are zeros, which are read like any others.
  const state = session.createState();
  const fixed = {
    ...(heads > 0 ? { query: contents(1, [samples, heads, 1, headSize]) } : {}),
    key: contents(2, [samples, keyValueHeads, 1, headSize]),
    value: contents(3, [samples, keyValueHeads, 1, headSize]),
  };
  const fetched = [heads > 0 ? `attended.${layers - 1}` : written];
  const places = (number: number): Tensor =>
    integers(
      "int64",
      Array.from({ length: samples }, () => number),
      [samples],
    );
  return {
    run: (valid) =>
      session.run(
        {
          ...fixed,
          write_indices: places(valid - 1),
          ...(heads > 0 ? { nonpad_kv_seqlen: places(valid) } : {}),
        },
        fetched,
        { state },
      ),
    release: () => session.release(),
  };
}

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const start = performance.now();
  await work();
  return performance.now() - start;
};

/** Two chains of different lengths; what one layer more takes. */
async function startDifference(
  chain: Chain,
  more: number,
  setting: Setting,
): Promise<Running & { oneMore(): Promise<number> }> {
  const short = await startChain({ ...chain, layers: 1 }, setting);
  const long = await startChain({ ...chain, layers: 1 + more }, setting);
  const oneMore = async (): Promise<number> => {
    const first = await timed(() => short.run(chain.rows));
    return ((await timed(() => long.run(chain.rows))) - first) / more;
  };
  return {
    oneMore,
    run: oneMore,
    result: async () => (Object.values(await short.run(chain.rows))[0].data as Uint16Array).slice(),
    stop: async () => {
      await short.release();
      await long.release();
    },
  };
}

const same = likeTheFirst(() => undefined);

/** The write of one row into one cache. */
export function writeGroup({ model, writes }: DeviceSizes, setting: Setting): Group {
  const { keyValueHeads, headSize } = model;
  const chain = { layers: 1, samples: 1, heads: 0, keyValueHeads, headSize, rows: writes.rows };
  // Two caches a layer, keys and values.
  const layers = writes.caches / 2;
  return {
    name: `one row into a cache of ${writes.rows}, ${keyValueHeads} heads of ${headSize}, float16`,
    contestants: [
      {
        name: `insitu, TensorScatter, one of ${writes.caches} in a graph`,
        runtime: "insitu",
        async start() {
          const running = await startDifference(chain, layers, setting);
          return { ...running, run: async () => (await running.oneMore()) / names.length };
        },
      },
    ],
    check: same,
  };
}

/** Attention of a decode step over long caches, beside a copy. */
export function attentionGroup({ model, attention, copyBytes }: DeviceSizes, setting: Setting): Group {
  const { heads, keyValueHeads, headSize } = model;
  const { samples, rows, layers } = attention;
  const chain = { layers: 1, samples, heads, keyValueHeads, headSize, rows };
  // Keys and values; what is written and the results are next to nothing.
  const readBytes = 2 * samples * keyValueHeads * rows * headSize * 2;
  let copySpeed: number | undefined;
  const speed = (bytes: number, milliseconds: number): number => bytes / milliseconds / 1e6;
  return {
    name: `attention of one token a sample, ${samples} samples of ${rows} rows, ${heads}/${keyValueHeads} heads of ${headSize}, float16`,
    contestants: [
      {
        name: "the device's own copy, bytes read and written",
        runtime: "insitu",
        async start() {
          const copier: Copier = await startCopier(copyBytes);
          return {
            run: () => copier.run(),
            result: () => Promise.resolve(new Uint16Array()),
            figures: (medianMs) => {
              copySpeed = speed(copier.bytes, medianMs);
              return { "GB/s": copySpeed, "of copy speed": 1 };
            },
            stop: () => Promise.resolve(copier.stop()),
          };
        },
      },
      {
        name: "insitu, TensorScatter and Attention",
        runtime: "insitu",
        async start() {
          const running = await startDifference(chain, layers, setting);
          return {
            ...running,
            figures: (medianMs) => {
              const read = speed(readBytes, medianMs);
              return { "GB/s": read, ...(copySpeed === undefined ? {} : { "of copy speed": read / copySpeed }) };
            },
          };
        },
      },
    ],
    check: same,
  };
}

/** What the attention of a whole decoder, and nothing else of it, takes longer behind the long context than behind the short one. */
export const attentionGrowth = ({ model, contexts }: DeviceSizes, setting: Setting): Contestant => ({
  name: "insitu, the attention of all layers alone",
  runtime: "insitu",
  async start() {
    const { layers, heads, keyValueHeads, headSize } = model;
    const [short, long] = contexts;
    const running = await startChain({ layers, samples: 1, heads, keyValueHeads, headSize, rows: long }, setting);
    return {
      run: async () => {
        const first = await timed(() => running.run(short));
        return (await timed(() => running.run(long))) - first;
      },
      result: async () => (Object.values(await running.run(short))[0].data as Uint16Array).slice(),
      stop: () => running.release(),
    };
  },
});
