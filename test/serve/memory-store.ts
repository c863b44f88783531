// A store in the test's own memory.
import type { PageStore } from "../../src/base/page-store.js";

export class MemoryStore implements PageStore {
  readonly values = new Map<string, Uint8Array>();
  async load(names: readonly string[]): Promise<(Uint8Array | undefined)[]> {
    return names.map((name) => this.values.get(name));
  }
  async save(values: ReadonlyMap<string, Uint8Array>): Promise<void> {
    for (const [name, value] of values) this.values.set(name, value);
  }
  async close(): Promise<void> {}
}
