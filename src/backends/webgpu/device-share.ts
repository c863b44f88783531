/**
 * A device as one session has it. What WebGPU refuses of the session's calls is the failure of that session, and is told by nobody else on the
 * device: all that may be refused is called through here. Knows no buffer and no order.
 */
import { InsituError } from "../../base/error.js";
import type { DeviceTraits } from "../../webgpu-kernels/webgpu-kernel.js";
import { type Device, mapToRead } from "./device.js";

/** One session's part of a device. */
export class DeviceShare {
  /** What all sessions on it have in common, as its pipelines. */
  readonly shared: Device;
  /** Resolves with what `check` throws once it does. */
  readonly lost: Promise<InsituError>;
  #failure: InsituError | undefined;
  #tellLost: (error: InsituError) => void = () => {};
  /** True within `guard`. */
  #isGuarded = false;
  /** Ends when it is known of every call so far whether it was refused. */
  #judged: Promise<void> = Promise.resolve();

  constructor(device: Device) {
    this.shared = device;
    this.lost = new Promise((resolve) => void (this.#tellLost = resolve));
    void device.gone.then(() => this.#tell());
  }

  get limits(): GPUSupportedLimits {
    return this.shared.gpu.limits;
  }

  get traits(): DeviceTraits {
    return this.shared.traits;
  }

  get description(): string {
    return this.shared.description;
  }

  get isImaginary(): boolean {
    return this.shared.isImaginary;
  }

  get isSoftware(): boolean {
    return this.shared.isSoftware;
  }

  /** Throws once the device is gone, or what the session has there cannot be vouched for. */
  check(): void {
    this.shared.check();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Something failed that nobody waited for: all that is asked from now on says so. */
  fail(what: string, cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : String(cause);
    this.#failure ??= new InsituError(
      cause instanceof InsituError ? cause.code : "internal",
      `${what} on ${this.description} failed, and what lies there cannot be vouched for: ${reason}; create a new session`,
      { cause },
    );
    this.#tell();
  }

  /** Whoever waits for it hears that nothing more can be had. */
  #tell(): void {
    try {
      this.check();
    } catch (error) {
      if (error instanceof InsituError) this.#tellLost(error);
    }
  }

  /** Does work whose failures WebGPU tells only afterwards: the result at once, and a promise that rejects with the failure. */
  attempt<T>(what: string, work: (gpu: GPUDevice) => T): { readonly result: T; readonly settled: Promise<void> } {
    this.check();
    return this.shared.attempt(what, () => work(this.shared.gpu));
  }

  /**
   * Makes calls that are only refused where something is wrong: then the session has failed, unless the failure turns out not to matter. Calls
   * within calls are judged with them.
   */
  guard<T>(work: (gpu: GPUDevice) => T, matters?: () => Promise<boolean>): T {
    const { gpu } = this.shared;
    if (this.#isGuarded) return work(gpu);
    this.#isGuarded = true;
    gpu.pushErrorScope("out-of-memory");
    gpu.pushErrorScope("validation");
    try {
      return work(gpu);
    } finally {
      this.#isGuarded = false;
      const judged = this.#judge([gpu.popErrorScope(), gpu.popErrorScope()], matters);
      const before = this.#judged;
      this.#judged = judged.then(() => before);
    }
  }

  async #judge(scopes: readonly Promise<GPUError | null>[], matters?: () => Promise<boolean>): Promise<void> {
    // A device that is gone may have nothing to say of them; `check` tells that it is.
    const errors = await Promise.all(scopes.map((scope) => scope.catch(() => null)));
    const error = errors.find((each) => each !== null);
    if (error === undefined || (await matters?.()) === false) return;
    this.#failure ??= this.shared.refusal(error.message);
    this.#tell();
  }

  /** Waits until it is known of every call so far whether it was refused; rejects where one was, and where the device is gone. */
  async settle(): Promise<void> {
    await this.#judged;
    this.check();
  }

  /** Encodes commands and submits them, all or, where encoding throws, none. */
  submit(encode: (encoder: GPUCommandEncoder) => void): void {
    this.guard((gpu) => {
      const encoder = gpu.createCommandEncoder();
      encode(encoder);
      gpu.queue.submit([encoder.finish()]);
    });
  }

  /** Writes the first bytes of an array, or all, to a buffer, from its front or from a byte on, before what is submitted next. */
  write(
    buffer: GPUBuffer,
    bytes: Uint8Array,
    size: number = bytes.length,
    matters?: () => Promise<boolean>,
    at = 0,
  ): void {
    if (this.isImaginary || size === 0) return;
    this.guard(({ queue }) => queue.writeBuffer(buffer, at, bytes as Uint8Array<ArrayBuffer>, 0, size), matters);
  }

  /** The first bytes of a buffer, once all is done that was submitted. */
  async read(buffer: GPUBuffer, size: number): Promise<Uint8Array> {
    const mapped = this.guard(() => buffer.mapAsync(mapToRead, 0, size));
    await this.shared.awaiting(mapped).catch((cause: unknown) => this.shared.meaningOf(cause));
    const bytes = new Uint8Array(buffer.getMappedRange(0, size).slice(0));
    buffer.unmap();
    return bytes;
  }

  /** Waits until all is done that was submitted. */
  async finish(): Promise<void> {
    const done = this.shared.queue.onSubmittedWorkDone();
    await this.shared.awaiting(done).catch((cause: unknown) => this.shared.meaningOf(cause));
  }
}
