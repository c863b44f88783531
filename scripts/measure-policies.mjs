// Conversations over two workers behind HAProxy: how much of their prompts need not be read again when requests go round, when they are hashed by
// conversation, and with a store behind the workers. Needs a build, redis-server and haproxy.
//   node scripts/measure-policies.mjs [conversations]
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { complete, endAll, median, startProxy, startRedis, startWorker } from "./cluster-parts.mjs";

const conversations = Number(process.argv[2] ?? 12);
const turns = 4;
const atATime = 4;
const settings = readFileSync(new URL("../examples/cluster/haproxy.cfg", import.meta.url), "utf8");
const folder = mkdtempSync(join(tmpdir(), "insitu-policies-"));

/** All conversations, some at a time; each says what was said before and goes on. */
async function talk(door) {
  const times = [];
  const tokens = { prompt: 0, reused: 0 };
  let next = 0;
  const began = performance.now();
  const one = async () => {
    for (let which = next++; which < conversations; which = next++) {
      let prompt = `Story ${which}: ${`once the wolf number ${which} went to the sea and saw a ship. `.repeat(6)}`;
      for (let turn = 0; turn < turns; turn++) {
        const body = { prompt, max_tokens: 16, temperature: 0, logit_bias: { 0: -100 } };
        const { milliseconds, text, usage } = await complete(door, body, { "x-insitu-prefix": `story ${which}` });
        times.push(milliseconds);
        tokens.prompt += usage.prompt_tokens;
        tokens.reused += usage.prompt_tokens_details.cached_tokens;
        prompt += `${text} And then, in the ${turn}. year, `;
      }
    }
  };
  await Promise.all(Array.from({ length: atATime }, one));
  const seconds = (performance.now() - began) / 1000;
  return {
    prompt: tokens.prompt,
    reused: tokens.reused / tokens.prompt,
    milliseconds: median(times),
    rate: times.length / seconds,
  };
}

/** What the workers count together. */
async function counted(workers, name) {
  const pages = await Promise.all(workers.map(async ({ address }) => (await fetch(`${address}/metrics`)).text()));
  return pages.reduce((sum, page) => sum + Number(new RegExp(`^${name} (\\d+)`, "m").exec(page)[1]), 0);
}

try {
  console.log(`${conversations} conversations of ${turns} turns, ${atATime} at a time`);
  for (const [policy, hashes, stores] of [
    ["round-robin", false, false],
    ["hash", true, false],
    ["round-robin + store", false, true],
    ["hash + store", true, true],
  ]) {
    const balance = hashes
      ? settings
      : settings.replace(/balance hash.*\n.*hash-type.*\n.*hash-balance.*\n/, "balance roundrobin\n");
    const file = join(folder, "haproxy.cfg");
    writeFileSync(file, balance);
    const store = stores ? await startRedis() : undefined;
    const workers = await Promise.all(["a", "b"].map(() => startWorker(["--quiet", "--threads", "1"], store)));
    const { prompt, reused, milliseconds, rate } = await talk(await startProxy(file, workers));
    const [hits, saved] = [
      await counted(workers, "insitu_store_hits_total"),
      await counted(workers, "insitu_store_saved_total"),
    ];
    const blocks = stores ? `; blocks from the store ${hits}, to it ${saved}` : "";
    const shown = `${(100 * reused).toFixed(0)} % of ${prompt} tokens reused, median ${milliseconds.toFixed(0)} ms, ${rate.toFixed(1)} requests a second`;
    console.log(`${policy}: ${shown}${blocks}`);
    endAll();
  }
} finally {
  endAll();
  rmSync(folder, { recursive: true });
}
