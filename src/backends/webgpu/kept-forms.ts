/** Buffers that hold other forms of something, by what they are made of and by what the form is called. Knows neither. */
import { type DeviceBuffer, holds } from "./buffers.js";

/** Those of one session, or of one program. */
export class KeptForms<Source extends object | string> {
  readonly #numbers = new Map<Source, number>();
  readonly #buffers = new Map<string, DeviceBuffer>();

  /** The form of these, in this order, unless it is gone. */
  get(of: readonly Source[], key: string): DeviceBuffer | undefined {
    const buffer = this.#buffers.get(this.#name(of, key));
    return holds(buffer, 0) ? buffer : undefined;
  }

  set(of: readonly Source[], key: string, buffer: DeviceBuffer): void {
    this.#buffers.set(this.#name(of, key), buffer);
  }

  clear(): void {
    this.#numbers.clear();
    this.#buffers.clear();
  }

  #name(of: readonly Source[], key: string): string {
    for (const source of of) if (!this.#numbers.has(source)) this.#numbers.set(source, this.#numbers.size);
    return `${of.map((source) => this.#numbers.get(source)).join(" ")}: ${key}`;
  }
}
