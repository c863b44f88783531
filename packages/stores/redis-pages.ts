/**
 * Blocks of pages in Redis or Valkey, which several processes share. How much is kept, and what goes first, is the server's to say (maxmemory,
 * allkeys-lru); each value also has a time to live. A connection that fails or is late is given up, and the next call makes another.
 */
import { checkCount } from "#insitu/base/arguments.js";
import { InsituError } from "#insitu/base/error.js";
import type { PageStore } from "#insitu/base/page-store.js";
import { readRedisAddress, type RedisAddress } from "./redis-address.js";
import { type ClientRoom, type Connection, connectRedis } from "./redis-connection.js";

const prefix = "insitu:page:";

/** A store behind redis:// or redis-cluster://, with TLS behind rediss:// or rediss-cluster://. Nothing is asked of it yet: it may be down. */
export async function openRedisPages(address: string, secondsToLive: number): Promise<PageStore> {
  checkCount("the seconds that pages live in a store", secondsToLive, 1);
  const found = readRedisAddress(address);
  return new RedisPages(await loadClient(), found, secondsToLive);
}

async function loadClient(): Promise<ClientRoom> {
  try {
    return await import("@redis/client");
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new InsituError(
      "invalid-argument",
      "a store of pages needs a package that is not installed: npm install @redis/client",
      { cause },
    );
  }
}

class RedisPages implements PageStore {
  readonly #room: ClientRoom;
  readonly #address: RedisAddress;
  readonly #secondsToLive: number;
  #connection: Promise<Connection> | undefined;
  #isClosed = false;
  /** Ends it, also while it is being made. */
  #destroy: (() => void) | undefined;

  constructor(room: ClientRoom, address: RedisAddress, secondsToLive: number) {
    this.#room = room;
    this.#address = address;
    this.#secondsToLive = secondsToLive;
  }

  async load(
    names: readonly string[],
    signal: AbortSignal,
    mostBytes = Infinity,
  ): Promise<readonly (Uint8Array | undefined)[]> {
    if (names.length === 0) return [];
    const values = await this.#with(signal, async ({ read }) => {
      const keys = names.map((name) => prefix + name);
      const answer: unknown = await read(keys, mostBytes);
      if (Array.isArray(answer) && answer.length === names.length) return answer as unknown[];
      throw new Error(`it did not answer with ${names.length} values`);
    });
    return values.map((value) => (value instanceof Uint8Array ? value : undefined));
  }

  async save(values: ReadonlyMap<string, Uint8Array>, signal: AbortSignal): Promise<void> {
    await this.#with(signal, ({ write }) =>
      Promise.all(
        Array.from(values, ([name, { buffer, byteOffset, byteLength }]) =>
          write(prefix + name, Buffer.from(buffer, byteOffset, byteLength)),
        ),
      ),
    );
  }

  renew(): void {
    this.#giveUp();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#giveUp();
  }

  /** Uses a connection; one that fails, or is used when the signal comes, is given up. */
  async #with<T>(signal: AbortSignal, use: (connection: Connection) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#isClosed) throw new Error("the store was closed");
    const connecting = (this.#connection ??= this.#connect());
    const giveUp = (): void => {
      if (this.#connection === connecting) this.#giveUp();
    };
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      return await use(await connecting);
    } catch (error) {
      // What the server refuses it refuses on a connection that works.
      if (!(error instanceof this.#room.ErrorReply)) giveUp();
      else if (!this.#address.isCluster && isOfCluster(error.message))
        throw new InsituError(
          "invalid-argument",
          "it is a server of a cluster: give redis-cluster://host:port in place of redis://host:port",
          { cause: error },
        );
      throw error;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  #connect(): Promise<Connection> {
    const { made, destroy } = connectRedis(this.#room, this.#address, this.#secondsToLive, () => {
      if (this.#destroy === destroy) this.#giveUp();
    });
    this.#destroy = destroy;
    return made;
  }

  #giveUp(): void {
    const destroy = this.#destroy;
    this.#destroy = undefined;
    this.#connection = undefined;
    try {
      destroy?.();
    } catch {
      // It is closed already.
    }
  }
}

/** What a server of a cluster answers who takes it for the only one. */
const isOfCluster = (message: string): boolean => /^(MOVED|CROSSSLOT|ASK) /.test(message);
