// Redis, workers and HAProxy in processes of their own, for scripts that measure several of them. Needs a build.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { createClient } from "@redis/client";

/** The command line. */
export const main = fileURLToPath(new URL("../dist/lib/cli.js", import.meta.url));
const children = [];

/** Ends what was started. */
export function endAll() {
  for (const child of children.splice(0)) child.kill("SIGKILL");
}

/** The port of a server that begins to listen. */
export const listening = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

async function freePort() {
  const server = createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a Redis that is empty; its port. */
export async function startRedis(options = []) {
  const port = await freePort();
  const child = spawn("redis-server", ["--port", port, "--save", "", "--appendonly", "no", ...options]);
  children.push(child);
  await new Promise((resolve) => child.stdout.on("data", (line) => /Ready to accept/.test(line) && resolve()));
  return port;
}

/** Any command of the Redis at a port, and its answer. */
export async function redisCommand(port, ...words) {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  await client.connect();
  try {
    return await client.sendCommand(words);
  } finally {
    client.destroy();
  }
}

/** Starts a worker, on the store behind a port if one is given. */
export async function startWorker(options, store) {
  const stored = store === undefined ? [] : ["--store", `redis://127.0.0.1:${store}`];
  const child = spawn(process.execPath, [main, "serve", "--port", "0", ...options, ...stored]);
  children.push(child);
  let told = "";
  child.stderr.on("data", (text) => (told += text));
  const address = await new Promise((resolve, reject) => {
    child.stdout.once("data", (line) => resolve(/http:\S+/.exec(line)[0]));
    child.once("exit", () => reject(new Error(told)));
  });
  return { child, address, told: told.split("\n")[0].replace("insitu: ", "") };
}

/** Starts HAProxy in front of two workers; its address. */
export async function startProxy(settings, [a, b]) {
  const door = `127.0.0.1:${await freePort()}`;
  const places = { INSITU_WORKER_A: new URL(a.address).host, INSITU_WORKER_B: new URL(b.address).host };
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin`, INSITU_DOOR: door, ...places };
  children.push(spawn("haproxy", ["-db", "-f", settings], { env, stdio: "ignore" }));
  const isOpen = () =>
    fetch(`http://${door}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isOpen())) await new Promise((resolve) => setTimeout(resolve, 50));
  return `http://${door}`;
}

/** Asks for a text that is not streamed, and how long it took. */
export async function complete(address, body, headers = {}) {
  const began = performance.now();
  const response = await fetch(`${address}/v1/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return { milliseconds: performance.now() - began, text: answer.choices[0].text, usage: answer.usage };
}

export const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
