/**
 * One kernel for TensorScatter and Attention against the pair: kernels alone, with no session around them, so that nothing else is
 * in the figures. docs/fused-cache-write.md has the answer.
 */
import { loadKernelModule } from "../backends/wasm/load-module.js";
import { WasmMemory } from "../backends/wasm/memory.js";
import { KernelPool } from "../backends/wasm/pool.js";
import { type JobOf, kernelJobs, type KernelName, reservedBytes } from "../wasm-kernels/exports.js";
import { elementCode, jobBytes, type JobLayout, writeJob } from "../wasm-kernels/jobs.js";
import { nodePlatform } from "../platform/node.js";
import type { Tensor } from "../tensor/tensor.js";
import { attended, attentionFeeds, type AttentionFeeds, type AttentionSizes, validBytes } from "./attention-work.js";
import type { Contestant, Group, Running, Setting } from "./load.js";
import { copiesOf, farOff, floatsOf } from "./work.js";

/** Kernels on a memory of their own. */
export class Kernels {
  readonly memory: WasmMemory;
  readonly pool: KernelPool;

  private constructor(memory: WasmMemory, pool: KernelPool) {
    this.memory = memory;
    this.pool = pool;
  }

  static async start(threads: number): Promise<Kernels> {
    const { module } = await loadKernelModule(nodePlatform, true);
    const memory = new WasmMemory(reservedBytes);
    const pool = await KernelPool.start({
      memory,
      module,
      kernels: Object.keys(kernelJobs),
      threads,
      startWorker: (start) => nodePlatform.startKernelWorker(start),
    });
    return new Kernels(memory, pool);
  }

  /** The address of a copy of a tensor. */
  place(tensor: Tensor): number {
    const { buffer, byteOffset, byteLength } = tensor.data as Float32Array;
    const address = this.memory.take(byteLength);
    new Uint8Array(this.memory.buffer, address, byteLength).set(new Uint8Array(buffer, byteOffset, byteLength));
    return address;
  }

  placeInteger(value: number): number {
    const address = this.memory.take(8);
    new BigInt64Array(this.memory.buffer, address, 1)[0] = BigInt(value);
    return address;
  }

  /** A function that runs a job. */
  job<Name extends KernelName>(kernel: Name, job: JobOf<Name>, parts: number): () => void {
    const layout: JobLayout = kernelJobs[kernel];
    const address = this.memory.take(jobBytes(layout));
    const { buffer } = this.memory;
    const values = job as Readonly<Record<string, number>>;
    writeJob(new Int32Array(buffer), new Float32Array(buffer), address, layout, values);
    return () => this.pool.run(kernel, address, parts);
  }
}

/** Where everything of one cache lies. */
interface Places {
  readonly query: number;
  readonly newKey: number;
  readonly newValue: number;
  readonly key: number;
  readonly value: number;
  readonly output: number;
  readonly indices: number;
  readonly lengths: number;
}

const attentionJobOf = (sizes: AttentionSizes, places: Places): JobOf<"scatterAttentionDecode"> => {
  const { type, heads, kvHeads, head, capacity, valid } = sizes;
  return {
    ...places,
    queryType: elementCode[type],
    cacheType: elementCode[type],
    batch: 1,
    heads,
    kvHeads,
    queries: 1,
    headSize: head,
    valueSize: head,
    querySample: heads * head,
    queryHead: head,
    queryRow: head,
    keySample: kvHeads * capacity * head,
    keyHead: capacity * head,
    keyRow: head,
    valueSample: kvHeads * capacity * head,
    valueHead: capacity * head,
    valueRow: head,
    outputSample: heads * head,
    outputHead: head,
    outputRow: head,
    total: capacity,
    past: valid - 1,
    causal: 1,
    left: -1,
    right: -1,
    mask: 0,
    maskType: 0,
    maskSample: 0,
    maskHead: 0,
    maskQuery: 0,
    maskKey: 0,
    maskLength: 0,
    scale: 1 / Math.sqrt(head),
    softcap: 0,
    splits: 1,
    partials: 0,
    sinks: 0,
    newKeySample: kvHeads * head,
    newKeyHead: head,
    newValueSample: kvHeads * head,
    newValueHead: head,
  };
};

const scatterJobOf = (
  { type, kvHeads, head, capacity }: AttentionSizes,
  source: number,
  target: number,
  indices: number,
): JobOf<"scatterRows"> => {
  const rowBytes = head * (type === "float32" ? 4 : 2);
  return {
    source,
    target,
    indices,
    batch: 1,
    outer: kvHeads,
    length: 1,
    capacity,
    rowBytes,
    sourceSample: kvHeads * rowBytes,
    sourceOuter: rowBytes,
    sourceRow: rowBytes,
    targetSample: kvHeads * capacity * rowBytes,
    targetOuter: capacity * rowBytes,
    targetRow: rowBytes,
  };
};

async function startKernels(
  sizes: AttentionSizes,
  feeds: AttentionFeeds,
  copies: number,
  fused: boolean,
  threads: number,
): Promise<Running> {
  const kernels = await Kernels.start(threads);
  const { memory, pool } = kernels;
  const shared = {
    query: kernels.place(feeds.query),
    newKey: kernels.place(feeds.key),
    newValue: kernels.place(feeds.value),
    output: memory.take(feeds.query.size * 4),
    indices: kernels.placeInteger(sizes.valid - 1),
    lengths: kernels.placeInteger(sizes.valid),
  };
  const parts = Math.min(pool.threads, sizes.kvHeads);
  const steps = Array.from({ length: copies }, (): readonly (() => void)[] => {
    const cache = { key: kernels.place(feeds.cacheBefore.key), value: kernels.place(feeds.cacheBefore.value) };
    const places = { ...shared, ...cache };
    const job = attentionJobOf(sizes, places);
    if (fused) return [kernels.job("scatterAttentionDecode", job, parts)];
    return [
      kernels.job("scatterRows", scatterJobOf(sizes, places.newKey, places.key, places.indices), 1),
      kernels.job("scatterRows", scatterJobOf(sizes, places.newValue, places.value, places.indices), 1),
      kernels.job("attentionDecode", job, parts),
    ];
  });
  let count = 0;
  const step = (at: number): void => {
    for (const job of steps[at]) job();
  };
  const { data } = feeds.query;
  const output = new (data.constructor as Float32ArrayConstructor)(memory.buffer, shared.output, feeds.query.size);
  return {
    run: async () => step(++count % steps.length),
    async result() {
      step(0);
      return floatsOf(output.slice());
    },
    stop: () => pool.stop(),
  };
}

function fusedGroup(sizes: AttentionSizes, { quick, threads }: Setting): Group {
  const { type, heads, kvHeads, head, valid, capacity } = sizes;
  let feeds: AttentionFeeds | undefined;
  const start = (fused: boolean): Promise<Running> =>
    startKernels(sizes, (feeds ??= attentionFeeds(sizes)), quick ? 2 : copiesOf(validBytes(sizes)), fused, threads);
  const contestants: Contestant[] = [
    { name: "scatterRows twice, then attentionDecode", runtime: "insitu", start: () => start(false) },
    { name: "scatterAttentionDecode", runtime: "insitu", start: () => start(true) },
  ];
  return {
    name: `one kernel for write and read: ${type}, ${heads}/${kvHeads} heads of ${head}, ${valid} valid of ${capacity}`,
    contestants,
    check(results) {
      const expected = attended(sizes, (feeds ??= attentionFeeds(sizes)));
      const problems = new Map<string, string>();
      for (const [name, result] of results) {
        const problem = farOff(result as Float32Array, expected, 1e-3);
        if (problem !== undefined) problems.set(name, problem);
      }
      return problems;
    },
  };
}

/** A large model's layer and a small one's, over a long and over a short cache. */
export function fusedGroups(setting: Setting): readonly Group[] {
  const float32 = { type: "float32", capacity: setting.quick ? 64 : 8192 } as const;
  const layers = setting.quick
    ? [{ heads: 4, kvHeads: 2, head: 16 }]
    : [
        { heads: 32, kvHeads: 8, head: 128 },
        { heads: 12, kvHeads: 4, head: 64 },
      ];
  const lengths = setting.quick ? [32] : [4096, 64];
  return layers.flatMap((layer) => lengths.map((valid) => fusedGroup({ ...float32, ...layer, valid }, setting)));
}
