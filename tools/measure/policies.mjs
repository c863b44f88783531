// Conversations over two workers behind HAProxy: how much of their prompts need not be read again when requests go round, when they are hashed by
// conversation, and with a store behind the workers. `insitu bench serve --targets` asks and prints; its options are handed on. Needs a build,
// redis-server and haproxy.
//   node tools/measure/policies.mjs [--concurrency 4] [--requests 6] [--svg file]
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endAll, main, startProxy, startRedis, startWorker } from "../../scripts/cluster-parts.mjs";

const settings = readFileSync(new URL("../../examples/cluster/haproxy.cfg", import.meta.url), "utf8");
const folder = mkdtempSync(join(tmpdir(), "insitu-policies-"));

/** Two workers of their own behind HAProxy. */
async function setUp(name, hashes, stores) {
  const balance = hashes
    ? settings
    : settings.replace(/balance hash.*\n.*hash-type.*\n.*hash-balance.*\n/, "balance roundrobin\n");
  const file = join(folder, `${name}.cfg`);
  writeFileSync(file, balance);
  const store = stores ? await startRedis() : undefined;
  const workers = await Promise.all(["a", "b"].map(() => startWorker(["--quiet", "--threads", "1"], store)));
  return { name, stores, workers, door: await startProxy(file, workers) };
}

/** What the workers count together. */
async function counted(workers, name) {
  const pages = await Promise.all(workers.map(async ({ address }) => (await fetch(`${address}/metrics`)).text()));
  return pages.reduce((sum, page) => sum + Number(new RegExp(`^${name} (\\d+)`, "m").exec(page)[1]), 0);
}

try {
  const policies = [];
  for (const [name, hashes, stores] of [
    ["round-robin", false, false],
    ["hash", true, false],
    ["round-robin + store", false, true],
    ["hash + store", true, true],
  ])
    policies.push(await setUp(name, hashes, stores));
  const targets = policies.map(({ name, door }) => `${name}=${door}`).join(",");
  const { status } = spawnSync(
    process.execPath,
    [main, "bench", "serve", "--targets", targets, ...process.argv.slice(2)],
    { stdio: ["ignore", "inherit", "inherit"] },
  );
  process.exitCode = status ?? 1;
  for (const { name, workers } of policies.filter(({ stores }) => stores)) {
    const [hits, saved] = [
      await counted(workers, "insitu_store_hits_total"),
      await counted(workers, "insitu_store_saved_total"),
    ];
    console.error(`${name}: ${hits} blocks from the store, ${saved} to it, under both loads`);
  }
} finally {
  endAll();
  rmSync(folder, { recursive: true });
}
