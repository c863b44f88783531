/** What one session has on a device: memory, weights, the arena that its programs share, and the order in which all is done. */
import { InsituError } from "../../base/error.js";
import type { Node, Value } from "../../graph/graph.js";
import type { KernelTable, Operand } from "../../graph/kernel.js";
import type { Binding, Dispatch, WebgpuKernel } from "../../webgpu-kernels/webgpu-kernel.js";
import type { FallbackPolicy } from "../backend.js";
import { DeviceBuffer, DeviceMemory, devicePlace, holds } from "./buffers.js";
import { type Device, usage } from "./device.js";
import { DeviceShare } from "./device-share.js";
import { DeviceWeights } from "./device-weights.js";
import { FixedNumbers } from "./fixed-numbers.js";
import type { Bounds } from "./needs.js";
import { ParameterMemory } from "./parameters.js";
import { pipelineCounts, pipelineFor } from "./pipelines.js";
import { RecordedSteps } from "./recorded-steps.js";
import { isTemporary, RecordedForm } from "./recorder.js";
import { Scratch } from "./scratch.js";
import { SpareCaches } from "./spare-caches.js";
import type { WebgpuSettings } from "./settings.js";

/** A dispatch that is ready to be encoded. */
export interface ReadyDispatch {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly workgroups: readonly [number, number, number];
}

const valueWayOut = "ask for fewer tokens at a time or a smaller batch, or use another backend";

/** Device memory, queue and kernels of one session. */
export class WebgpuSession {
  readonly device: DeviceShare;
  readonly memory: DeviceMemory;
  readonly scratch: Scratch;
  readonly spares: SpareCaches;
  /** What becomes of steps without a kernel. */
  readonly fallback: FallbackPolicy;
  readonly weights: DeviceWeights;
  /** The whole numbers between which all of a buffer's are known to lie, whoever wrote them. */
  readonly bounds: WeakMap<DeviceBuffer, Bounds> = new WeakMap();
  /** Runs that were begun. */
  runs = 0;
  /** Of them those that were submitted as a whole, and whose results have not come. */
  runsUnderWay = 0;
  /** Where runs are not begun, and only have compiled what they need: hears of a pipeline that is asked for. */
  compilingAhead: ((pipeline: Promise<GPUComputePipeline>) => void) | undefined;
  readonly #fixed = new FixedNumbers();
  /** Steps as kernels recorded them. */
  readonly recorded: RecordedSteps;
  /** Pipelines of dispatches that programs have in common. */
  readonly #pipelinesOf = new WeakMap<Dispatch, Promise<GPUComputePipeline>>();
  #arena: readonly DeviceBuffer[] = [];
  readonly #onPipelines: WebgpuSettings["onPipelines"];
  /** What uploads wait in until it is their run's turn. */
  #staging: DeviceBuffer | undefined;
  /** Pipelines that this session has waited for. */
  readonly #seen = new WeakSet<Promise<GPUComputePipeline>>();
  #pipelines = 0;
  #compileTime = 0;
  /** Everything that was asked so far: what comes later waits for it. */
  #last: Promise<unknown> = Promise.resolve();
  /** Copies that belong to the work that is being done: undefined where none may be asked for. */
  #own: { copies: Promise<void> } | undefined;
  /** Results on their way to the host, of runs that made way for others. */
  readonly #landing = new Set<Promise<unknown>>();
  #releasing: Promise<void> | undefined;
  #isReleased = false;

  constructor(
    device: Device,
    kernels: KernelTable<WebgpuKernel>,
    fallback: FallbackPolicy,
    { onPipelines }: Pick<WebgpuSettings, "onPipelines">,
  ) {
    this.device = new DeviceShare(device);
    this.#onPipelines = onPipelines;
    this.fallback = fallback;
    this.memory = new DeviceMemory(this.device);
    this.weights = new DeviceWeights(this.memory);
    this.scratch = new Scratch(this.memory);
    this.spares = new SpareCaches(this.memory);
    this.recorded = new RecordedSteps(kernels, device.traits);
  }

  get mostWorkgroups(): number {
    return this.device.traits.mostWorkgroups;
  }

  /** Does work once everything is in line that was asked before: what was submitted comes first. None is done once all was given back. */
  after<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      if (this.#isReleased)
        throw new InsituError("released", "the session was released, and its memory with it; create a new one");
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** The same for work that nobody waits for: where it fails, all that is asked afterwards says so. */
  enqueue(work: () => Promise<void>): void {
    this.after(work).catch((error: unknown) => {
      if (!this.#isReleased) this.device.fail("a copy or release", error);
    });
  }

  /** The same for copies: those that work asks for while it is done come with it, before all that was asked meanwhile. */
  enqueueCopy(work: () => Promise<void>): void {
    if (this.#own === undefined) this.enqueue(work);
    else this.#own.copies = this.#own.copies.then(work);
  }

  /** Lets work in line take what it made out of memory that the next one writes: the copies that `take` asks for are made when this resolves. */
  async taking<T>(take: () => T): Promise<T> {
    const own = { copies: Promise.resolve() };
    this.#own = own;
    try {
      return take();
    } finally {
      this.#own = undefined;
      await own.copies.catch((error: unknown) => {
        this.device.fail("a copy", error);
        throw error;
      });
    }
  }

  /** Brings weights beside what is asked meanwhile, which waits for them where it needs them. Memory is given back once it has ended. */
  async bringing(bring: () => Promise<void>): Promise<void> {
    await this.#last;
    await this.landing(bring());
  }

  /** Does work whose runs go as far as the pipelines that they need. */
  async compileAhead(work: () => Promise<void>, tell: (ready: number, total: number) => void): Promise<void> {
    let [ready, total] = [0, 0];
    this.compilingAhead = (pipeline) => {
      tell(ready, ++total);
      // What does not compile is told whoever runs it.
      pipeline.then(() => tell(++ready, total)).catch(() => undefined);
    };
    try {
      await work();
    } finally {
      this.compilingAhead = undefined;
      // What there was no memory for is asked for again by whoever needs it.
      await this.memory.settle().catch(() => undefined);
    }
  }

  /** The results of a run that has made way for the next. */
  landing<T>(results: Promise<T>): Promise<T> {
    const over = (): void => void this.#landing.delete(results);
    this.#landing.add(results);
    results.then(over, over);
    return results;
  }

  /** What is to be told of the device and of what the session has there. */
  describe(): readonly string[] {
    const { device, memory } = this;
    const counts = [...pipelineCounts(device.shared)].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
    const count = counts.reduce((sum, [, own]) => sum + own, 0);
    return [
      `${device.description}: ${memory.byteLength} bytes of this session`,
      ...this.weights.describe(),
      `memory in between: ${this.scratch.byteLength} bytes, which all steps share`,
      `${count} pipelines: this session waited ${Math.round(this.#compileTime)} ms for ${this.#pipelines} of them`,
      ...(count === 0 ? [] : [`pipelines by kernel: ${counts.map(([name, own]) => `${own} ${name}`).join(", ")}`]),
    ];
  }

  get arenaBytes(): number {
    return this.#arena.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Buffers for values in between, each of at least these bytes; the same ones as long as they suffice. `nameOf` tells what one is for. */
  arenaFor(sizes: readonly number[], nameOf: (at: number) => string): readonly DeviceBuffer[] {
    if (sizes.every((size, at) => holds(this.#arena[at], size))) return this.#arena;
    const before = this.#arena;
    const count = Math.max(before.length, sizes.length);
    const made: DeviceBuffer[] = [];
    try {
      this.#arena = Array.from({ length: count }, (_, at) => {
        const [had, size] = [before[at], sizes[at] ?? 0];
        if (holds(had, size)) return had;
        if (had !== undefined) this.memory.free(had);
        const buffer = this.memory.allocate(size, nameOf(at), valueWayOut);
        made.push(buffer);
        return buffer;
      });
    } catch (error) {
      for (const buffer of made) this.memory.free(buffer);
      throw error;
    }
    return this.#arena;
  }

  isArena(buffer: DeviceBuffer): boolean {
    return this.#arena.includes(buffer);
  }

  /** A buffer of at least so many bytes that copies are made from: who asks again writes it once what was submitted has read it. */
  stagingOf(bytes: number): DeviceBuffer {
    if (holds(this.#staging, bytes)) return this.#staging;
    if (this.#staging !== undefined) this.memory.free(this.#staging);
    return (this.#staging = this.memory.create(bytes, "uploads on their way", usage.copySource | usage.copyTarget));
  }

  /** A form of weights on the device, made once. */
  async form(weights: readonly Value[], form: RecordedForm): Promise<DeviceBuffer> {
    return (
      this.weights.form(weights, form) ??
      this.weights.makeForm(weights, form, (sources, made) =>
        this.#submit([form.dispatch], ({ of }) => (of === form ? made : sources[form.of.indexOf(of as Operand)])),
      )
    );
  }

  /** A step's dispatch as it is to be compiled in this run. */
  settle(node: Node, dispatch: Dispatch, position: number): Dispatch {
    return this.#fixed.settle(node, dispatch, position, this.runs);
  }

  /** The pipeline of a dispatch: it is compiled from now on where the device does not have it. */
  pipelineOf(dispatch: Dispatch): Promise<GPUComputePipeline> {
    const original = this.recorded.originalOf(dispatch);
    let pipeline = this.#pipelinesOf.get(original);
    if (pipeline === undefined) {
      pipeline = pipelineFor(this.device.shared, original, this.compilingAhead !== undefined);
      this.#pipelinesOf.set(original, pipeline);
      // Whoever was told of a failure may ask the device again.
      pipeline.catch(() => this.#pipelinesOf.delete(original));
      this.compilingAhead?.(pipeline);
    }
    return pipeline;
  }

  /** Pipelines that were asked for, once all are there: what is new of them is told while it comes. */
  async compiled(pipelines: readonly Promise<GPUComputePipeline>[]): Promise<readonly GPUComputePipeline[]> {
    const fresh = [...new Set(pipelines)].filter((pipeline) => !this.#seen.has(pipeline));
    for (const pipeline of fresh) this.#seen.add(pipeline);
    if (fresh.length > 0) {
      const began = performance.now();
      let done = 0;
      await Promise.all(fresh.map((pipeline) => pipeline.then(() => this.#onPipelines?.(++done, fresh.length))));
      this.#pipelines += fresh.length;
      this.#compileTime += performance.now() - began;
    }
    return Promise.all(pipelines);
  }

  /** A dispatch with its buffers bound, and its parameters where they lie; undefined where it has none. */
  bind(
    { bindings, workgroups }: Dispatch,
    pipeline: GPUComputePipeline,
    bufferOf: (binding: Binding) => DeviceBuffer,
    parameters: GPUBufferBinding | undefined,
  ): ReadyDispatch {
    const entries: GPUBindGroupEntry[] = bindings.map((binding, at) => {
      const bound = bufferOf(binding);
      return {
        binding: at,
        resource: { buffer: binding.piece === undefined ? bound.gpu : bound.pieces[binding.piece] },
      };
    });
    if (parameters !== undefined) entries.push({ binding: entries.length, resource: parameters });
    const group = this.device.guard((gpu) => gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    const [x, y = 1, z = 1] = workgroups;
    return { pipeline, group, workgroups: [x, y, z] };
  }

  /** Runs dispatches at once, one after the other. */
  async dispatch(dispatches: readonly Dispatch[]): Promise<void> {
    const bufferOf = ({ of }: Binding): DeviceBuffer => {
      if (of instanceof RecordedForm || isTemporary(of))
        throw new Error("a dispatch outside of a program has no temporaries");
      return devicePlace((of as Operand).place).buffer;
    };
    await this.#submit(dispatches, bufferOf);
  }

  async #submit(dispatches: readonly Dispatch[], bufferOf: (binding: Binding) => DeviceBuffer): Promise<void> {
    const pipelines = await Promise.all(dispatches.map((dispatch) => this.pipelineOf(dispatch)));
    const parameters = new ParameterMemory(this.memory, dispatches);
    this.device.submit((encoder) => {
      const ready = dispatches.map((dispatch, at) => this.bind(dispatch, pipelines[at], bufferOf, parameters.of(at)));
      const pass = new DispatchPass(encoder);
      for (const dispatch of ready) pass.add(dispatch);
      pass.end();
    });
    parameters.release();
  }

  /** Gives everything back once all is done that was asked before, and results are where they go; what is asked later is refused. */
  release(): Promise<void> {
    this.weights.stop();
    this.#releasing ??= this.after(async () => {
      await Promise.allSettled(this.#landing);
      this.#isReleased = true;
      this.spares.drop();
      this.memory.release();
      this.weights.clear();
    });
    return this.#releasing;
  }
}

/** A pass of dispatches: each costs as few calls as can be, since calls are what the host's time goes into. */
export class DispatchPass {
  readonly #pass: GPUComputePassEncoder;
  #pipeline: GPUComputePipeline | undefined;

  constructor(encoder: GPUCommandEncoder) {
    this.#pass = encoder.beginComputePass();
  }

  add({ pipeline, group, workgroups }: ReadyDispatch): void {
    // By their places: taking an array apart is a call of its own where this runs for every dispatch.
    const x = workgroups[0];
    const y = workgroups[1];
    const z = workgroups[2];
    if (pipeline !== this.#pipeline) this.#pass.setPipeline((this.#pipeline = pipeline));
    this.#pass.setBindGroup(0, group);
    if (z !== 1) this.#pass.dispatchWorkgroups(x, y, z);
    else if (y !== 1) this.#pass.dispatchWorkgroups(x, y);
    else this.#pass.dispatchWorkgroups(x);
  }

  end(): void {
    this.#pass.end();
  }
}
