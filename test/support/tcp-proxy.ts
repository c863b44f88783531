// A port that leads to another one of this machine, and does something to the bytes that come back: late, drop by drop, or damaged.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** What becomes of the bytes that come back. */
interface Manner {
  /** Milliseconds until a piece of an answer is handed on. */
  readonly delay?: number;
  /** Bytes that are handed on at a time, a millisecond each. */
  readonly drop?: number;
  /** Changes a piece of an answer in place. */
  readonly damage?: (bytes: Buffer) => void;
}

/** A proxy that listens. */
export class TcpProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(port: number, manner: Manner) {
    this.#server = createServer((near) => {
      const far = connect(port, "127.0.0.1");
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.setNoDelay();
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.on("data", (bytes) => far.write(bytes));
      void passBack(far, near, manner);
    });
  }

  static async start(port: number, manner: Manner): Promise<TcpProxy> {
    const proxy = new TcpProxy(port, manner);
    await new Promise<void>((resolve) => void proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get address(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

async function passBack(far: Socket, near: Socket, { delay = 0, drop = Infinity, damage }: Manner): Promise<void> {
  const wait = (milliseconds: number): Promise<void> =>
    new Promise((resolve) => void setTimeout(resolve, milliseconds));
  try {
    for await (const piece of far) {
      const bytes = Buffer.from(piece as Buffer);
      damage?.(bytes);
      if (delay > 0) await wait(delay);
      for (let at = 0; at < bytes.length && !near.destroyed; at += drop) {
        if (drop < Infinity) await wait(1);
        near.write(bytes.subarray(at, at + drop));
      }
    }
  } catch {
    // One of the two is gone.
  }
}
