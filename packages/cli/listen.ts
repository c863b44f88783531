/** A server on a port of this machine: Node's own HTTP, with bounds on how slowly a client may send and read. */
import type { Server as NodeServer } from "node:http";
import { InsituError } from "#insitu/base/error.js";
import type { Server } from "#insitu/serve/server.js";
import { UsageError } from "./usage.js";

/** Where a server listens. */
export interface Listening {
  readonly address: string;
  /** Takes no connections any more and lets go of those there are. */
  close(): Promise<void>;
}

/** How long a client may take to send a request. */
const requestMilliseconds = 60_000;

/** How often that is looked at. */
const lookMilliseconds = 5_000;

/** How long a client may read nothing of what waits for it. */
const stalledMilliseconds = 60_000;

/** Listens; resolves once connections are taken. */
export async function listen(server: Server, host: string, port: number): Promise<Listening> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new UsageError(`a port is a whole number from 0 to 65535, got ${port}`);
  const { createAdaptorServer } = await import("@hono/node-server");
  const http = createAdaptorServer({
    fetch: (request: Request) => server.fetch(request),
    overrideGlobalObjects: false,
    serverOptions: { connectionsCheckingInterval: lookMilliseconds },
  }) as NodeServer;
  http.requestTimeout = requestMilliseconds;
  http.headersTimeout = requestMilliseconds / 2;
  http.setTimeout(stalledMilliseconds, (socket) => {
    // Who waits for an answer may be silent; who does not read one that is there may not.
    if (socket.writableLength > 0) socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    http.once("error", (cause: NodeJS.ErrnoException) =>
      reject(
        new InsituError(
          "invalid-argument",
          `the server cannot listen on ${host}, port ${port}: ${cause.message}; --port takes another, 0 a free one`,
          { cause },
        ),
      ),
    );
    http.listen(port, host, resolve);
  });
  const bound = http.address();
  const actual = typeof bound === "object" && bound !== null ? bound.port : port;
  return {
    address: `http://${host.includes(":") ? `[${host}]` : host}:${actual}`,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeIdleConnections();
        // What was said to the end is on its way: a client that does not take it is not waited for.
        setTimeout(() => http.closeAllConnections(), 1000).unref();
      }),
  };
}
