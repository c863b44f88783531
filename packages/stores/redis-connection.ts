/**
 * A connection to one Redis or Valkey, or to a cluster of them. The keys of a cluster are spread by their own digests: those that begin alike would
 * otherwise fill the one server that their beginning belongs to. Whoever reads many asks all servers at once, each in one go. A server that answers
 * with more than was asked for is left.
 */
import { AnswerBound } from "./answer-bound.js";
import type { RedisAddress } from "./redis-address.js";

/** The package, which is loaded where a store is wanted. */
export type ClientRoom = typeof import("@redis/client");

/** What is asked of a connection: values are bytes. */
export interface Connection {
  /** Values of so many bytes at most. */
  readonly read: (keys: string[], mostBytes: number) => Promise<unknown[]>;
  readonly write: (key: string, value: Buffer) => Promise<unknown>;
}

/** A connection that is being made, and how to end it, made or not. */
interface Connecting {
  readonly made: Promise<Connection>;
  readonly destroy: () => void;
}

/** Begins to connect. `leave` hears when the connection cannot be used any more. */
export function connectRedis(
  room: ClientRoom,
  address: RedisAddress,
  secondsToLive: number,
  leave: () => void,
): Connecting {
  return address.isCluster
    ? connectCluster(room, address, secondsToLive)
    : connectOne(room, address, secondsToLive, leave);
}

/** Bytes of an answer with values; each also has its length written before it. */
const answerBytes = (keys: readonly string[], mostBytes: number): number => keys.length * (mostBytes + 64);

// A connection is made anew by whoever asks next, not by itself.
const common = { disableOfflineQueue: true, disableClientInfo: true, maintNotifications: "disabled" } as const;

function connectOne(room: ClientRoom, { urls: [url] }: RedisAddress, seconds: number, leave: () => void): Connecting {
  const client = room.createClient({ url, RESP: 2, ...common, socket: { reconnectStrategy: false } });
  client.on("error", leave);
  client.on("end", leave);
  const bytes = client.withTypeMapping({ [room.RESP_TYPES.BLOB_STRING]: Buffer });
  const expiration = { type: "EX", value: seconds } as const;
  const bound = new AnswerBound();
  const connection: Connection = {
    read: (keys, mostBytes) => bound.during(answerBytes(keys, mostBytes), () => bytes.mGet(keys)),
    write: (key, value) => client.set(key, value, { expiration }),
  };
  return {
    made: bound.during(0, () => client.connect()).then(() => connection),
    destroy: () => client.destroy(),
  };
}

/** How long a server of a cluster may take to say which others there are: who asks leaves earlier, its connection stays until then. */
const discoveryMilliseconds = 10_000;

function connectCluster(room: ClientRoom, address: RedisAddress, seconds: number): Connecting {
  const { urls, username, password, tls } = address;
  const cluster = room.createCluster({
    RESP: 2,
    // Others are connected to when they are asked: one that is gone is in nobody's way before.
    minimizeConnections: true,
    rootNodes: urls.map((url) => ({ url, socket: { socketTimeout: discoveryMilliseconds } })),
    defaults: {
      ...common,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      socket: { reconnectStrategy: false, ...(tls ? { tls: true } : {}) },
    },
  });
  // Whoever asked hears of it by the answer.
  cluster.on("error", () => {});
  const bytes = cluster.withTypeMapping({ [room.RESP_TYPES.BLOB_STRING]: Buffer });
  const expiration = { type: "EX", value: seconds } as const;
  const bound = new AnswerBound();
  const connection: Connection = {
    read: (keys, mostBytes) =>
      bound.during(answerBytes(keys, mostBytes), () => Promise.all(keys.map((key) => bytes.get(key)))),
    write: (key, value) => bound.during(0, () => cluster.set(key, value, { expiration })),
  };
  return {
    made: bound.during(0, () => cluster.connect()).then(() => connection),
    destroy: () => cluster.destroy(),
  };
}
