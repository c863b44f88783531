/**
 * The weights that one session has on a device, as they are in the model and in the forms that kernels ask for. Those that the host does not
 * hold come from where they lie in pieces, so that no more of them than a piece is ever on the host; they are read again where another form of them
 * is wanted later.
 */
import type { Value } from "../../graph/graph.js";
import { absentView, DeferredView } from "../../tensor/deferred.js";
import { View } from "../../tensor/view.js";
import { type DeviceBuffer, type DeviceMemory, holds, wholeWords } from "./buffers.js";
import { KeptForms } from "./kept-forms.js";
import type { RecordedForm } from "./recorder.js";

/** Bytes of a weight that are on the host at once. */
const pieceBytes = 2 ** 22;

/** Bytes that are on their way to the device at once: it copies them before it takes them. */
const mostUnderway = 2 ** 25;

/** A weight on the device. */
interface Kept {
  readonly buffer: DeviceBuffer;
  /** True once a program reads it as it is. */
  isRead: boolean;
  /** Ends when its bytes are on their way; undefined once they are. */
  coming: (() => Promise<void>) | undefined;
}

/** Those of one session. */
export class DeviceWeights {
  readonly #memory: DeviceMemory;
  readonly #kept = new Map<string | View, Kept>();
  readonly #forms = new KeptForms<string | View>();
  /** What weights are read into on their way. */
  #piece: Uint8Array | undefined;
  #underway = 0;
  /** Bytes that came in pieces, and bytes that the host holds as well. */
  #fromFiles = 0;
  #onHost = 0;

  constructor(memory: DeviceMemory) {
    this.#memory = memory;
  }

  /** A weight on the device. One that is not on the host is there once `arrive` has ended. */
  of(view: View, name: string): DeviceBuffer {
    const kept = this.#keep(view, name);
    kept.isRead = true;
    return kept.buffer;
  }

  /** Waits for weights that were asked for and are not on the host. */
  async arrive(): Promise<void> {
    await this.#arrive();
    await this.#rest();
  }

  async #arrive(): Promise<void> {
    for (const [key, kept] of this.#kept) {
      if (kept.coming === undefined) continue;
      try {
        await kept.coming();
        kept.coming = undefined;
      } catch (error) {
        this.#memory.free(kept.buffer);
        this.#kept.delete(key);
        throw error;
      }
    }
  }

  /** Brings weights that are not on the host, in the order in which they lie in their files. */
  async bring(weights: ReadonlyMap<View, string>, onRead: (bytes: number) => void): Promise<void> {
    const absent = [...weights].flatMap(([view, name]) => {
      const own = absentView(view);
      return own === undefined ? [] : [{ view: own, name }];
    });
    for (const { view, name } of absent.sort((a, b) => (a.view.key < b.view.key ? -1 : 1))) {
      this.#keep(view, name, onRead);
      await this.#arrive();
    }
    await this.#memory.settle();
    await this.#rest();
  }

  #keep(view: View, name: string, onRead?: (bytes: number) => void): Kept {
    const key = keyOf(view);
    const before = this.#kept.get(key);
    if (before !== undefined && holds(before.buffer, 0)) return before;
    const buffer = this.#memory.allocateWeight(view.byteLength, `weight "${name}"`);
    const kept: Kept = { buffer, isRead: false, coming: this.#send(view, buffer, onRead) };
    this.#kept.set(key, kept);
    return kept;
  }

  /** Sends a weight to a buffer: at once where the host has it, else what brings it there. */
  #send(view: View, to: DeviceBuffer, onRead?: (bytes: number) => void): (() => Promise<void>) | undefined {
    const absent = absentView(view);
    if (absent !== undefined) return () => this.#stream(absent, to, onRead);
    this.#onHost += view.byteLength;
    this.#memory.upload(view, to);
    return undefined;
  }

  async #stream(view: DeferredView, to: DeviceBuffer, onRead?: (bytes: number) => void): Promise<void> {
    const { elements, byteLength } = view;
    if (elements.isOnHost) this.#onHost += byteLength;
    else this.#fromFiles += byteLength;
    if (!view.isWhole) {
      this.#memory.upload(new View(view.type, view.shape, await elements.load(), view.offset, view.strides), to);
      onRead?.(byteLength);
      return;
    }
    const piece = (this.#piece ??= new Uint8Array(pieceBytes));
    for (let at = 0; at < byteLength; at += pieceBytes) {
      const bytes = piece.subarray(0, Math.min(pieceBytes, byteLength - at));
      await elements.read(at, bytes);
      // Behind the end of the last piece come bytes that nobody reads.
      this.#memory.uploadBytes(piece.subarray(0, wholeWords(bytes.length)), at, to);
      onRead?.(bytes.length);
      this.#underway += bytes.length;
      if (this.#underway < mostUnderway) continue;
      this.#underway = 0;
      await this.#memory.device.finish();
    }
  }

  /** Lets go of what is needed while weights come. */
  async #rest(): Promise<void> {
    this.#piece = undefined;
    if (this.#underway === 0) return;
    this.#underway = 0;
    await this.#memory.device.finish();
  }

  /** The form of weights, where it is there. */
  form(weights: readonly Value[], { key }: RecordedForm): DeviceBuffer | undefined {
    return this.#forms.get(weights.map(keyOfWeight), key);
  }

  /** Makes a form by `make`, of the weights on the device; each comes along for that long only, unless a program reads it as it is. */
  async makeForm(
    weights: readonly Value[],
    form: RecordedForm,
    make: (sources: readonly DeviceBuffer[], buffer: DeviceBuffer) => Promise<void>,
  ): Promise<DeviceBuffer> {
    const sources = weights.map(({ name, initializer }) => this.#keep(initializer!, name));
    await this.arrive();
    const names = weights.map(({ name }) => `"${name}"`).join(" and ");
    const buffer = this.#memory.allocateWeight(form.bytes, `weight ${names} as ${form.key}`);
    await this.#memory.settle();
    await make(
      sources.map((source) => source.buffer),
      buffer,
    );
    sources.forEach(({ isRead, buffer: source }, at) => {
      if (isRead) return;
      this.#memory.free(source);
      this.#kept.delete(keyOfWeight(weights[at]));
    });
    this.#forms.set(weights.map(keyOfWeight), form.key, buffer);
    return buffer;
  }

  /** What is to be told of where weights are beside the device. */
  describe(): readonly string[] {
    if (this.#fromFiles + this.#onHost === 0) return [];
    return [
      `weights: ${this.#fromFiles} bytes came from their files in pieces; ${this.#onHost} bytes are on the host as well, since they are small or no file has them`,
    ];
  }

  clear(): void {
    this.#kept.clear();
    this.#forms.clear();
  }
}

/** The same for two views of the same elements: those that are read from files are told by where they lie. */
const keyOf = (view: View): string | View => (view instanceof DeferredView ? view.key : view);

const keyOfWeight = ({ initializer }: Value): string | View => keyOf(initializer!);
