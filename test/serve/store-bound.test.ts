// A server that answers a store's questions without end: what comes is bounded by what was asked for, not by how long it may take.
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { openRedisPages } from "../../packages/stores/redis-pages.js";

/** A server that answers each question with a value that says it has so many bytes, and sends them as fast as they are taken. */
async function endless(declared: number): Promise<{ port: number; sent: () => number; close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`*1\r\n$${declared}\r\n`);
      const piece = Buffer.alloc(1 << 16, 120);
      const more = (): void => {
        while (!socket.destroyed && socket.write(piece));
        if (!socket.destroyed) socket.once("drain", more);
      };
      more();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const sent = (): number =>
    [...sockets].reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0);
  return {
    port: (server.address() as AddressInfo).port,
    sent,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test.each([`redis://`, `redis-cluster://`])("%s: an answer without end is cut off", async (scheme) => {
  const server = await endless(2 ** 29);
  const store = await openRedisPages(`${scheme}127.0.0.1:${server.port}`, 60);
  try {
    await expect(store.load(["a"], AbortSignal.timeout(10_000), 1000)).rejects.toThrow();
    // A mebibyte beyond what was asked for, and what lies between two sockets.
    expect(server.sent()).toBeLessThan(16 << 20);
  } finally {
    await store.close();
    server.close();
  }
});
