/**
 * The weights that one session has on a device, as they are in the model and in the forms that kernels ask for. Those that the host does not
 * hold come from where they lie in pieces, so that no more of them than a piece is ever on the host; they are read again where another form of them
 * is wanted later.
 */
import { InsituError } from "../../base/error.js";
import type { Value } from "../../graph/graph.js";
import { absentView, DeferredView } from "../../tensor/deferred.js";
import { View } from "../../tensor/view.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import { type DeviceBuffer, type DeviceMemory, holds, wholeWords } from "./buffers.js";
import { KeptForms } from "./kept-forms.js";
import type { RecordedForm } from "./recorder.js";
import { type WeightPiece, WeightPieces } from "./weight-pieces.js";

const { pieceBytes } = keeping;

/** A weight on the device. */
interface Kept {
  readonly buffer: DeviceBuffer;
  /** True once a program reads it as it is. */
  isRead: boolean;
  /** What it comes from; undefined once its bytes are on their way. */
  coming: { readonly view: DeferredView; readonly onRead: ((bytes: number) => void) | undefined } | undefined;
}

/** Those of one session. */
export class DeviceWeights {
  readonly #memory: DeviceMemory;
  readonly #kept = new Map<string | View, Kept>();
  readonly #forms = new KeptForms<string | View>();
  /** Ends when all have come that are being brought. */
  #bringing: Promise<void> | undefined;
  #isStopped = false;
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
    await this.#bringing;
    await this.#arrive();
  }

  async #arrive(): Promise<void> {
    for (;;) {
      const waiting = [...this.#kept.values()].filter(({ coming }) => coming !== undefined);
      if (waiting.length === 0) return;
      await this.#fill(waiting.filter(({ buffer: { common } }) => common?.begin() ?? true));
      // Nobody waits for this session by now: it may wait for others.
      for (const kept of waiting) {
        const { common } = kept.buffer;
        if (kept.coming === undefined || common === undefined) continue;
        await common.ended();
        if (!common.isFilled) continue;
        kept.coming.onRead?.(kept.coming.view.byteLength);
        kept.coming = undefined;
      }
    }
  }

  /** Brings weights to buffers that nobody else fills: several parts at once, each where it belongs as soon as it was read. */
  async #fill(waiting: readonly Kept[]): Promise<void> {
    const pieces = new WeightPieces(this.#memory);
    const underway = new Set<Promise<void>>();
    let failure: { readonly error: unknown } | undefined;
    const begin = (work: Promise<void>): void => {
      const own = work.catch((error: unknown) => void (failure ??= { error })).finally(() => underway.delete(own));
      underway.add(own);
    };
    try {
      for (const kept of waiting) {
        const { elements, byteLength, isWhole } = kept.coming!.view;
        if (elements.isOnHost) this.#onHost += byteLength;
        else this.#fromFiles += byteLength;
        if (!isWhole) await this.#sendView(kept);
        let left = byteLength;
        for (let start = 0; isWhole && start < byteLength && failure === undefined; start += pieceBytes) {
          const piece = await pieces.take();
          if (this.#isStopped) throw new InsituError("released", "the session was released while its weights came");
          const bytes = Math.min(pieceBytes, byteLength - start);
          const sent = this.#readPart(kept, start, bytes, piece, pieces);
          begin(sent.then(() => void ((left -= bytes) === 0 && this.#isThere(kept))));
        }
        if (byteLength === 0) this.#isThere(kept);
        if (failure !== undefined) break;
      }
    } catch (error) {
      failure ??= { error };
    }
    await Promise.all(underway);
    await pieces.release().catch((error: unknown) => (failure ??= { error }));
    if (failure === undefined) return;
    for (const each of waiting) if (each.coming !== undefined) each.buffer.common?.end(false);
    for (const [key, { buffer, coming }] of this.#kept) {
      if (coming === undefined) continue;
      this.#memory.free(buffer);
      this.#kept.delete(key);
    }
    throw failure.error;
  }

  /** Sends so many bytes of a weight from one on. */
  async #readPart(kept: Kept, start: number, bytes: number, piece: WeightPiece, pieces: WeightPieces): Promise<void> {
    const { view, onRead } = kept.coming!;
    try {
      await view.elements.read(start, piece.bytes.subarray(0, bytes));
    } catch (error) {
      pieces.give(piece);
      throw error;
    }
    // Behind the end of the last part come bytes that nobody reads.
    pieces.send(piece, wholeWords(bytes), start, kept.buffer);
    onRead?.(bytes);
  }

  /** Brings a view with gaps, or a part of what its file has. */
  async #sendView(kept: Kept): Promise<void> {
    const { view, onRead } = kept.coming!;
    const { type, shape, offset, strides } = view;
    this.#memory.upload(new View(type, shape, await view.elements.load(), offset, strides), kept.buffer);
    onRead?.(view.byteLength);
    this.#isThere(kept);
  }

  #isThere(kept: Kept): void {
    kept.coming = undefined;
    kept.buffer.common?.end(true);
  }

  /** Brings weights that are not on the host, in the order in which they lie in their files, and does work meanwhile. Nothing else may bring any at that time. */
  async bring(
    weights: ReadonlyMap<View, string>,
    onRead: (bytes: number) => void,
    meanwhile: () => Promise<void>,
  ): Promise<void> {
    const absent = [...weights].flatMap(([view, name]) => {
      const own = absentView(view);
      return own === undefined ? [] : [{ view: own, name }];
    });
    for (const { view, name } of absent.sort((a, b) => (a.view.key < b.view.key ? -1 : 1)))
      this.#keep(view, name, onRead);
    const settled = this.#memory.settle();
    const coming = settled.then(() => this.#arrive());
    coming.catch(() => undefined);
    this.#bringing = coming;
    try {
      await settled;
      await meanwhile();
      await coming;
    } catch (error) {
      this.stop();
      await coming.catch(() => undefined);
      throw error;
    } finally {
      this.#bringing = undefined;
    }
  }

  #keep(view: View, name: string, onRead?: (bytes: number) => void): Kept {
    const key = keyOf(view);
    const before = this.#kept.get(key);
    if (before !== undefined && holds(before.buffer, 0)) return before;
    const absent = absentView(view);
    const buffer = this.#memory.allocateWeight(view.byteLength, `weight "${name}"`, commonKey([view]));
    const isFilled = buffer.common?.isFilled === true;
    const kept: Kept = { buffer, isRead: false, coming: absent && !isFilled ? { view: absent, onRead } : undefined };
    this.#kept.set(key, kept);
    if (isFilled) onRead?.(view.byteLength);
    if (absent === undefined) {
      this.#onHost += view.byteLength;
      this.#memory.upload(view, buffer);
    }
    return kept;
  }

  /** What is being brought need not come any more. */
  stop(): void {
    this.#isStopped = this.#bringing !== undefined;
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
    const names = weights.map(({ name }) => `"${name}"`).join(" and ");
    const common = commonKey(weights.map(({ initializer }) => initializer!));
    const key = common === undefined ? undefined : `${common} as ${form.key}`;
    const buffer = this.#memory.allocateWeight(form.bytes, `weight ${names} as ${form.key}`, key);
    const own = buffer.common;
    while (own !== undefined && !own.isFilled && !own.begin()) await own.ended();
    if (own?.isFilled !== true)
      try {
        const sources = weights.map(({ name, initializer }) => this.#keep(initializer!, name));
        await this.arrive();
        await this.#memory.settle();
        await make(
          sources.map((source) => source.buffer),
          buffer,
        );
        own?.end(true);
      } catch (error) {
        own?.end(false);
        this.#memory.free(buffer);
        throw error;
      }
    for (const key of weights.map(keyOfWeight)) {
      const source = this.#kept.get(key);
      if (source === undefined || source.isRead) continue;
      this.#memory.free(source.buffer);
      this.#kept.delete(key);
    }
    this.#forms.set(weights.map(keyOfWeight), form.key, buffer);
    return buffer;
  }

  /** True for weights that another session has brought. */
  isThere(view: View): boolean {
    const key = commonKey([view]);
    return key !== undefined && this.#memory.device.shared.common.get(key)?.isFilled === true;
  }

  /** What is to be told of where weights are beside the device. */
  describe(): readonly string[] {
    const shared = this.#memory.sharedBytes;
    const sharing = shared === 0 ? [] : [`weights: ${shared} bytes are shared with other sessions`];
    if (this.#fromFiles + this.#onHost === 0) return sharing;
    return [
      ...sharing,
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

/** What sessions know weights by that they may have in common; undefined for others. */
function commonKey(views: readonly View[]): string | undefined {
  const absent = views.map(absentView);
  if (!absent.every((view) => view?.elements.isInFiles === true)) return undefined;
  return absent.map((view) => `${view!.type} ${view!.key}`).join(" and ");
}

const keyOfWeight = ({ initializer }: Value): string | View => keyOf(initializer!);
