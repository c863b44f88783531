// Two workers, Redis for what they have read, and HAProxy in front of them, on this machine: node examples/cluster/cluster.mjs
// Needs redis-server and haproxy (Debian: apt-get install redis-server haproxy). Options of `insitu serve` are handed on. Ctrl-C ends it all.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";

const insitu = fileURLToPath(new URL("../../dist/lib/cli.js", import.meta.url));
const settings = fileURLToPath(new URL("haproxy.cfg", import.meta.url));

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const children = [];
function start(command, args, env = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"] });
  child.once("error", (error) => {
    console.error(`${command} cannot be started: ${error.message}`);
    end();
  });
  children.push(child);
  return child;
}

function end() {
  for (const child of children) child.kill("SIGTERM");
}
process.once("SIGINT", end);
process.once("SIGTERM", end);

const said = (child, pattern) =>
  new Promise((resolve) => {
    child.stdout.on("data", (text) => {
      const found = pattern.exec(String(text));
      if (found !== null) resolve(found);
    });
  });

const storePort = await freePort();
const limits = ["--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru", "--save", "", "--appendonly", "no"];
await said(start("redis-server", ["--port", String(storePort), "--bind", "127.0.0.1", ...limits]), /Ready to accept/);

const serve = [insitu, "serve", "--port", "0", "--store", `redis://127.0.0.1:${storePort}`, ...process.argv.slice(2)];
const workers = await Promise.all(
  ["a", "b"].map(async (name) => {
    const child = start(process.execPath, serve);
    const [, address] = await said(child, /http:\/\/(\S+)/);
    console.log(`worker ${name}: process ${child.pid} on http://${address}`);
    return address;
  }),
);

const door = `127.0.0.1:${await freePort()}`;
const [a, b] = workers;
start("haproxy", ["-db", "-f", settings], { INSITU_DOOR: door, INSITU_WORKER_A: a, INSITU_WORKER_B: b });
for (;;) {
  const isOpen = await fetch(`http://${door}/health`).then(
    ({ ok }) => ok,
    () => false,
  );
  if (isOpen) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log(`all of it: http://${door}`);
