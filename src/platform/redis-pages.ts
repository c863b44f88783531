/**
 * Blocks of pages in Redis or Valkey, which several processes share. How much is kept, and what goes first, is the server's to say (maxmemory,
 * allkeys-lru); each value also has a time to live. A connection that fails or is late is given up, and the next call makes another.
 */
import type { RedisClientType } from "@redis/client";
import { checkCount } from "../base/arguments.js";
import { InsituError } from "../base/error.js";
import type { PageStore } from "../base/page-store.js";

type ClientRoom = typeof import("@redis/client");

/** What is asked of a connection: values are bytes. */
interface Connection {
  readonly read: (keys: string[]) => Promise<unknown[]>;
  readonly write: (key: string, value: Buffer) => Promise<unknown>;
}

const prefix = "insitu:page:";

/** A store behind redis:// or rediss://. Nothing is asked of it yet: it may be down. */
export async function openRedisPages(address: string, secondsToLive: number): Promise<PageStore> {
  checkCount("the seconds that pages live in a store", secondsToLive, 1);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !["redis:", "rediss:"].includes(url.protocol) || url.hostname === "")
    throw new InsituError(
      "invalid-argument",
      `a store must be redis://host:port, or rediss://host:port for TLS, got "${url?.protocol ?? address}${url === undefined ? "" : "//…"}"`,
    );
  return new RedisPages(await loadClient(), address, secondsToLive);
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
  readonly #address: string;
  readonly #secondsToLive: number;
  #connection: Promise<Connection> | undefined;
  /** Also one that is being made. */
  #client: Pick<RedisClientType, "destroy"> | undefined;

  constructor(room: ClientRoom, address: string, secondsToLive: number) {
    this.#room = room;
    this.#address = address;
    this.#secondsToLive = secondsToLive;
  }

  async load(names: readonly string[], signal: AbortSignal): Promise<readonly (Uint8Array | undefined)[]> {
    if (names.length === 0) return [];
    const values = await this.#with(signal, ({ read }) => read(names.map((name) => prefix + name)));
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

  async close(): Promise<void> {
    this.#giveUp();
  }

  /** Uses a connection; one that fails, or is used when the signal comes, is given up. */
  async #with<T>(signal: AbortSignal, use: (connection: Connection) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
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
      throw error;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  async #connect(): Promise<Connection> {
    const { createClient, RESP_TYPES } = this.#room;
    const client = createClient({
      url: this.#address,
      RESP: 2,
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: "disabled",
      socket: { reconnectStrategy: false },
    });
    this.#client = client;
    const leave = (): void => {
      if (this.#client === client) this.#giveUp();
    };
    client.on("error", leave);
    client.on("end", leave);
    await client.connect();
    const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    const expiration = { type: "EX", value: this.#secondsToLive } as const;
    return {
      read: (keys) => bytes.mGet(keys),
      write: (key, value) => client.set(key, value, { expiration }),
    };
  }

  #giveUp(): void {
    const client = this.#client;
    this.#client = undefined;
    this.#connection = undefined;
    try {
      client?.destroy();
    } catch {
      // It is closed already.
    }
  }
}
