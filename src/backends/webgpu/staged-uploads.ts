/**
 * Uploads of runs that come later in one submission: what is written to a queue comes before all of it, so their bytes lie in a buffer of
 * their own, from which each is copied when its run's turn comes.
 */
import { cloneView } from "../../tensor/copy.js";
import { bytesIn, coversStorage, type View } from "../../tensor/view.js";
import type { BoundRun } from "./bound-run.js";
import { type DeviceBuffer, wholeWords } from "./buffers.js";
import { roomFor } from "./landing.js";
import type { WebgpuSession } from "./session.js";

/** The uploads of one submission. */
class StagedUploads {
  readonly #session: WebgpuSession;
  readonly #buffer: DeviceBuffer;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #at = 0;

  /** `bytes`: how many there are at most, each upload in whole words. */
  constructor(session: WebgpuSession, bytes: number) {
    this.#session = session;
    this.#buffer = session.stagingOf(bytes);
    this.#bytes = new Uint8Array(bytes);
  }

  /** Brings a view's elements to the front of a buffer when this point of what the encoder holds is reached. */
  encode(encoder: GPUCommandEncoder, view: View, to: DeviceBuffer): void {
    const bytes = bytesIn(coversStorage(view) ? view : cloneView(view));
    const size = wholeWords(bytes.length);
    this.#bytes.set(bytes, this.#at);
    encoder.copyBufferToBuffer(this.#buffer.gpu, this.#at, to.gpu, 0, size);
    this.#at += size;
  }

  /** Sends the bytes: before what was encoded is submitted. */
  send(): void {
    this.#session.device.write(this.#buffer.gpu, this.#bytes, this.#at);
  }
}

/** Room for what so many runs upload. */
export const stagedUploads = (session: WebgpuSession, { actions }: BoundRun, runs: number): StagedUploads =>
  new StagedUploads(
    session,
    roomFor(
      runs,
      actions.reduce(
        (sum, each) => sum + (each.kind === "upload" || each.kind === "lay" ? wholeWords(each.to.byteLength) : 0),
        0,
      ),
    ),
  );
