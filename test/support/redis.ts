// A Redis or Valkey of the test's own, on a port of this machine, which can be killed, stopped and started again; and a cluster of them.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createClient, RESP_TYPES } from "@redis/client";
import { noteMissing } from "./missing.js";

const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/local/bin"];

/** The server's program; undefined where there is none. */
export const redisServer: string | undefined = ["redis-server", "valkey-server"]
  .flatMap((name) => folders.map((folder) => join(folder, name)))
  .find((path) => existsSync(path));

/** What to do where there is none. */
export const howToInstallRedis =
  "the tests of a store were skipped: no redis-server was found. Install one (Debian: apt-get install redis-server)";

if (redisServer === undefined) noteMissing("Redis", howToInstallRedis);

/** One server. */
export class Redis {
  readonly port: number;
  #process: ChildProcess | undefined;

  private constructor(port: number) {
    this.port = port;
  }

  static async start(...options: string[]): Promise<Redis> {
    const redis = new Redis(await freePort());
    await redis.start(...options);
    return redis;
  }

  get address(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it, empty, and waits until it answers. */
  async start(...options: string[]): Promise<void> {
    const args = ["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", ...options];
    this.#process = spawn(redisServer!, args, { stdio: "ignore" });
    for (;;) {
      try {
        return await this.#ask(async (client) => void (await client.ping()));
      } catch {
        await new Promise((resolve) => void setTimeout(resolve, 20));
      }
    }
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined) return;
    const gone = new Promise((resolve) => void child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** It accepts connections, and answers nothing. */
  hang(): void {
    this.#process!.kill("SIGSTOP");
  }

  goOn(): void {
    this.#process!.kill("SIGCONT");
  }

  /** All that it has. */
  entries(): Promise<Map<string, Buffer>> {
    return this.#ask(async (client) => {
      const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
      const keys = (await client.keys("*")).toSorted();
      return new Map(await Promise.all(keys.map(async (key) => [key, (await bytes.get(key))!] as const)));
    });
  }

  set(values: ReadonlyMap<string, Buffer>): Promise<unknown> {
    return this.#ask((client) => Promise.all(Array.from(values, ([key, value]) => client.set(key, value))));
  }

  /** Any command, and its answer. */
  command(...words: string[]): Promise<unknown> {
    return this.#ask((client) => client.sendCommand(words));
  }

  /** Seconds that a key is still kept. */
  secondsLeft(key: string): Promise<number> {
    return this.#ask(async (client) => Number(await client.ttl(key)));
  }

  async #ask<T>(use: (client: ReturnType<typeof createClient>) => Promise<T>): Promise<T> {
    const client = createClient({ url: this.address, RESP: 2, socket: { reconnectStrategy: false } });
    client.on("error", () => {});
    try {
      await client.connect();
      return await use(client as ReturnType<typeof createClient>);
    } finally {
      if (client.isOpen) client.destroy();
    }
  }
}

/** Servers that share the slots of one cluster, and know each other; the last `replicas` of them each follow one of the first. */
export class RedisCluster {
  readonly nodes: Redis[];
  readonly #folder: string;

  private constructor(nodes: Redis[], folder: string) {
    this.nodes = nodes;
    this.#folder = folder;
  }

  static async start(count: number, replicas = 0): Promise<RedisCluster> {
    const folder = mkdtempSync(join(tmpdir(), "insitu-cluster-"));
    const buses: number[] = [];
    for (let at = 0; at < count + replicas; at++) buses.push(await freePort());
    const nodes = await Promise.all(
      buses.map((bus, at) => {
        const files = ["--dir", folder, "--cluster-config-file", `nodes-${at}.conf`];
        const times = ["--cluster-node-timeout", "1000", "--cluster-port", String(bus)];
        return Redis.start("--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", ...files, ...times);
      }),
    );
    const cluster = new RedisCluster(nodes, folder);
    const from = (at: number): number => Math.floor((16384 * at) / count);
    for (let at = 0; at < count; at++)
      await nodes[at].command("CLUSTER", "ADDSLOTSRANGE", String(from(at)), String(from(at + 1) - 1));
    for (let at = 1; at < nodes.length; at++)
      await nodes[0].command("CLUSTER", "MEET", "127.0.0.1", String(nodes[at].port), String(buses[at]));
    await cluster.untilInfo(/cluster_state:ok[^]*cluster_known_nodes:(\d+)/, String(nodes.length));
    for (let at = count; at < nodes.length; at++) {
      await nodes[at].command("CLUSTER", "REPLICATE", String(await nodes[at - count].command("CLUSTER", "MYID")));
      // One that has copied nothing yet does not take the place of another.
      while (!String(await nodes[at].command("INFO", "replication")).includes("master_link_status:up"))
        await new Promise((resolve) => void setTimeout(resolve, 20));
    }
    return cluster;
  }

  /** Two of its servers; the others are found by them. */
  get address(): string {
    const [first, second] = this.nodes.map(({ port }) => `127.0.0.1:${port}`);
    return `redis-cluster://${first},${second}`;
  }

  /** Until what these servers say of the cluster has `wanted` at the pattern's place. */
  async untilInfo(pattern: RegExp, wanted: string, nodes: readonly Redis[] = this.nodes): Promise<void> {
    for (;;) {
      const infos = await Promise.all(nodes.map((node) => node.command("CLUSTER", "INFO")));
      if (infos.every((info) => pattern.exec(String(info))?.[1] === wanted)) return;
      await new Promise((resolve) => void setTimeout(resolve, 20));
    }
  }

  async kill(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill()));
    rmSync(this.#folder, { recursive: true });
  }
}

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}
