/**
 * The load `pages`: a step of attention over pages beside the same step over a cache without them, and the write of one token a
 * sequence beside a plain copy of as many bytes. insitu alone: its peers have no such operators here.
 */
import { writeModel } from "#insitu/onnx/write.js";
import { Tensor } from "#insitu/tensor/tensor.js";
import {
  attended,
  attentionFeeds,
  type AttentionFeeds,
  type AttentionSizes,
  inPlaceFeeds,
  inPlaceModel,
  validBytes,
} from "./attention-work.js";
import { Kernels } from "./kernels-alone.js";
import { type Contestant, differentBits, type Group, type Load, type Running, type Setting } from "./load.js";
import { pagedFeeds, pagedModel, type PageForm, poolCopies, poolsOf } from "./pages-work.js";
import { copied, copiesOf, farOff, once, startInsitu } from "./work.js";

/** The load. */
export const pages: Load = {
  name: "pages",
  description: "attention over pages, and the write of a token into them",
  groups: (setting) => [
    ...(setting.quick ? [4] : [16, 128]).map((blockSize) => attentionGroup(blockSize, setting)),
    writeGroup(setting),
  ],
};

const nameOf = ({ layout, type, order }: PageForm): string =>
  `${type === "int8" ? "int8 pages" : "pages"}, ${layout}, blocks ${order}`;

function attentionGroup(blockSize: number, setting: Setting): Group {
  const sizes: AttentionSizes = setting.quick
    ? { type: "float32", heads: 4, kvHeads: 2, head: 32, capacity: 32, valid: 21 }
    : { type: "float32", heads: 32, kvHeads: 8, head: 128, capacity: 4096, valid: 4096 };
  const { heads, kvHeads, head, valid } = sizes;
  const feeds = once(() => attentionFeeds(sizes));
  const copies = setting.quick ? 2 : copiesOf(validBytes(sizes));
  const forms: readonly PageForm[] = [
    { layout: "NHSD", blockSize, type: "float32", order: "in order" },
    { layout: "NHSD", blockSize, type: "float32", order: "scattered" },
    { layout: "Norm", blockSize, type: "float32", order: "in order" },
    { layout: "Norm", blockSize, type: "float32", order: "scattered" },
    { layout: "PA_NZ", blockSize, type: "float32", order: "scattered" },
    { layout: "NHSD", blockSize, type: "int8", order: "scattered" },
  ];
  return {
    name: `attention: float32, ${heads}/${kvHeads} heads of ${head}, ${valid} tokens, blocks of ${blockSize}`,
    contestants: [
      { name: "without pages", runtime: "insitu", start: () => startLinear(sizes, feeds(), copies, setting) },
      ...forms.map((form): Contestant => ({
        name: nameOf(form),
        runtime: "insitu",
        start: () => startPaged(form, sizes, feeds(), copies, setting),
      })),
    ],
    check(results) {
      const expected = attended(sizes, feeds());
      const problems = new Map<string, string>();
      for (const [name, result] of results) {
        const problem = farOff(result as Float32Array, expected, name.startsWith("int8") ? 0.1 : 1e-3);
        if (problem !== undefined) problems.set(name, problem);
      }
      return problems;
    },
  };
}

function startLinear(sizes: AttentionSizes, feeds: AttentionFeeds, copies: number, setting: Setting): Promise<Running> {
  const contents = Array.from({ length: copies }, () => ({
    past_key: copied(feeds.cacheBefore.key),
    past_value: copied(feeds.cacheBefore.value),
  }));
  const work = {
    model: () => writeModel(inPlaceModel(sizes)),
    rounds: [inPlaceFeeds(feeds, sizes)],
    outputs: ["attended"],
  };
  return startInsitu(work, setting, { contents });
}

function startPaged(
  form: PageForm,
  sizes: AttentionSizes,
  feeds: AttentionFeeds,
  copies: number,
  setting: Setting,
): Promise<Running> {
  const work = {
    model: () => pagedModel(form, sizes),
    rounds: [pagedFeeds(form, sizes, feeds)],
    outputs: ["attended"],
  };
  return startInsitu(work, setting, { contents: poolCopies(poolsOf(form, sizes, feeds), copies) });
}

/** One token a sequence: keys and values of all heads. Kernels alone, with no session around them. */
function writeGroup({ quick, threads }: Setting): Group {
  const [sequences, vector, blockSize] = quick ? [4, 256, 4] : [64, 8 * 128 * 4, 16];
  const blocks = sequences * (quick ? 2 : 16);
  const start = async (scattered: boolean): Promise<Running> => {
    const kernels = await Kernels.start(threads);
    const bytes = sequences * vector;
    const rows = new Uint8Array(bytes).map((_, at) => (at * 31) & 255);
    const source = kernels.place(new Tensor("uint8", rows, [bytes]));
    const pool = (): number => kernels.memory.take(blocks * blockSize * vector);
    const pools = [pool(), pool()];
    // Each sequence is somewhere else in its own block.
    const slots = BigInt64Array.from({ length: sequences }, (_, at) =>
      BigInt((((at * 37) % sequences) * (blocks / sequences) + 1) * blockSize + ((at * 5) % blockSize)),
    );
    const places = kernels.place(new Tensor("int64", slots, [sequences]));
    const jobs = pools.map((target) =>
      scattered
        ? kernels.job(
            "scatterPages",
            { ...scatterJob(vector, blockSize), source, target, slots: places, tokens: sequences },
            1,
          )
        : kernels.job("scatterRows", { ...copyJob(bytes), source, target }, 1),
    );
    return {
      run: async () => {
        for (const job of jobs) job();
      },
      async result() {
        for (const job of jobs) job();
        const memory = new Uint8Array(kernels.memory.buffer);
        const result = new Uint8Array(2 * bytes);
        pools.forEach((target, side) => {
          for (let row = 0; row < sequences; row++) {
            const at = target + (scattered ? Number(slots[row]) : row) * vector;
            result.set(memory.subarray(at, at + vector), side * bytes + row * vector);
          }
        });
        return result;
      },
      stop: () => kernels.pool.stop(),
    };
  };
  const first = "memory.copy of the same bytes";
  return {
    name: `write: one token a sequence, ${sequences} sequences, keys and values of ${vector} bytes`,
    contestants: [
      { name: first, runtime: "insitu", start: () => start(false) },
      { name: "into pages", runtime: "insitu", start: () => start(true) },
    ],
    check(results) {
      const problems = new Map<string, string>();
      for (const [name, result] of results) {
        const problem = differentBits(result, results.get(first)!);
        if (problem !== undefined) problems.set(name, problem);
      }
      return problems;
    },
  };
}

const scatterJob = (vector: number, blockSize: number) =>
  ({
    slotBytes: 8,
    pieces: 1,
    pieceBytes: vector,
    sourceToken: vector,
    sourcePiece: vector,
    blockSize,
    targetBlock: blockSize * vector,
    targetRow: vector,
    targetPiece: vector,
  }) as const;

/** One row of all the bytes: a single memory.copy. */
const copyJob = (bytes: number) =>
  ({
    indices: 0,
    batch: 1,
    outer: 1,
    length: 1,
    capacity: 1,
    rowBytes: bytes,
    sourceSample: bytes,
    sourceOuter: bytes,
    sourceRow: bytes,
    targetSample: bytes,
    targetOuter: bytes,
    targetRow: bytes,
  }) as const;
