/**
 * The weights that one session has on a device, as they are in the model and in the forms that kernels ask for. Those that the host does not
 * hold come from where they lie in pieces, so that no more of them than a piece is ever on the host; they are read again where another form of them
 * is wanted later.
 */
import type { Value } from "../../graph/graph.js";
import { absentView, DeferredView } from "../../tensor/deferred.js";
import { View } from "../../tensor/view.js";
import { keeping } from "../../webgpu-kernels/tuning.js";
import { type DeviceBuffer, type DeviceMemory, holds, wholeWords } from "./buffers.js";
import { KeptForms } from "./kept-forms.js";
import type { RecordedForm } from "./recorder.js";

const { pieceBytes, mostPiecesAhead, mostBytesUnderway } = keeping;

/** A weight on the device. */
interface Kept {
  readonly buffer: DeviceBuffer;
  /** True once a program reads it as it is. */
  isRead: boolean;
  /** What it comes from; undefined once its bytes are on their way. */
  coming: { readonly view: DeferredView; readonly onRead: ((bytes: number) => void) | undefined } | undefined;
}

/** A part of a weight that is being read: bytes to be sent from `start` on, or the elements of a view with gaps. */
interface Piece {
  readonly kept: Kept;
  readonly start: number;
  readonly isLast: boolean;
  readonly read: Promise<Uint8Array | View>;
}

/** Those of one session. */
export class DeviceWeights {
  readonly #memory: DeviceMemory;
  readonly #kept = new Map<string | View, Kept>();
  readonly #forms = new KeptForms<string | View>();
  /** What weights are read into on their way, and is free. */
  #pieces: Uint8Array[] = [];
  #underway = 0;
  /** Ends when the device has taken what was sent until it was asked last. */
  #taken: Promise<void> | undefined;
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

  /** Brings weights to buffers that nobody else fills. */
  async #fill(waiting: readonly Kept[]): Promise<void> {
    const pieces = this.#piecesOf(waiting);
    const ahead: Piece[] = [];
    try {
      for (;;) {
        for (let next = 0; ahead.length < mostPiecesAhead && next < mostPiecesAhead; next++) {
          const { value, done } = pieces.next();
          if (done !== true) ahead.push(value);
        }
        const piece = ahead.shift();
        if (piece === undefined) return;
        await this.#sendPiece(piece);
      }
    } catch (error) {
      for (const each of waiting) if (each.coming !== undefined) each.buffer.common?.end(false);
      for (const [key, { buffer, coming }] of this.#kept) {
        if (coming === undefined) continue;
        this.#memory.free(buffer);
        this.#kept.delete(key);
      }
      throw error;
    } finally {
      await Promise.allSettled(ahead.map(({ read }) => read));
    }
  }

  /** Begins to read the pieces of weights, one after the other as they are asked for. */
  *#piecesOf(waiting: readonly Kept[]): Generator<Piece, undefined> {
    for (const kept of waiting) {
      const { elements, byteLength, isWhole, type, shape, offset, strides } = kept.coming!.view;
      if (elements.isOnHost) this.#onHost += byteLength;
      else this.#fromFiles += byteLength;
      if (!isWhole) {
        const read = elements.load().then((all) => new View(type, shape, all, offset, strides));
        yield { kept, start: 0, isLast: true, read };
        continue;
      }
      for (let start = 0; start < byteLength || start === 0; start += pieceBytes) {
        const bytes = Math.min(pieceBytes, byteLength - start);
        const target = this.#pieces.pop() ?? new Uint8Array(pieceBytes);
        const read = elements.read(start, target.subarray(0, bytes)).then(() => target.subarray(0, bytes));
        yield { kept, start, isLast: start + bytes === byteLength, read };
      }
    }
    return undefined;
  }

  async #sendPiece({ kept, start, isLast, read }: Piece): Promise<void> {
    const piece = await read;
    const { onRead } = kept.coming!;
    const { byteLength } = piece;
    if (piece instanceof View) this.#memory.upload(piece, kept.buffer);
    else {
      const whole = new Uint8Array(piece.buffer, 0, pieceBytes);
      // Behind the end of the last piece come bytes that nobody reads.
      this.#memory.uploadBytes(whole.subarray(0, wholeWords(byteLength)), start, kept.buffer);
      this.#pieces.push(whole);
    }
    onRead?.(byteLength);
    if (isLast) {
      kept.coming = undefined;
      kept.buffer.common?.end(true);
    }
    this.#underway += byteLength;
    if (this.#underway < mostBytesUnderway) return;
    this.#underway = 0;
    const before = this.#taken;
    this.#taken = this.#memory.device.finish();
    await before;
  }

  /** Brings weights that are not on the host, in the order in which they lie in their files. */
  async bring(weights: ReadonlyMap<View, string>, onRead: (bytes: number) => void): Promise<void> {
    const absent = [...weights].flatMap(([view, name]) => {
      const own = absentView(view);
      return own === undefined ? [] : [{ view: own, name }];
    });
    for (const { view, name } of absent.sort((a, b) => (a.view.key < b.view.key ? -1 : 1)))
      this.#keep(view, name, onRead);
    await this.#memory.settle();
    await this.#arrive();
    await this.#rest();
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

  /** Lets go of what is needed while weights come. */
  async #rest(): Promise<void> {
    this.#pieces = [];
    const before = this.#taken;
    this.#taken = undefined;
    const isSent = this.#underway > 0;
    this.#underway = 0;
    await (isSent ? this.#memory.device.finish() : before);
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
