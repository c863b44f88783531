// One point of the simulation beside the real thing: a short recording is asked of two workers with small pools, in turns, on a Redis that must let
// go of blocks; what they reused is put beside what the simulation says of a store that holds as many.
import { hitRate, nameTrace } from "./block-caches.mjs";
import { drawn, recordChat } from "./chat-trace.mjs";
import { complete, endAll, redisCommand, startRedis, startWorker } from "./cluster-parts.mjs";

/** Short texts for a small model; one token is made of each, so that the next prompt has the recording's answer and not the model's. */
const settings = { ...drawn, tenants: 4, conversationsPerMinute: 12 };
const [minutes, scale, vocabulary, blocks] = [5, 0.15, 1000, 48];

export async function validate(seed) {
  const trace = recordChat({ minutes, seed, scale, vocabulary, settings });
  const named = nameTrace(trace, { answers: false });
  const distinct = new Set(named.flatMap(({ names }) => names)).size;
  try {
    for (const share of [undefined, 0.25, 0.5, 1.5]) {
      const bytes = share === undefined ? undefined : Math.round(2 ** 21 + share * distinct * 98_600);
      const limits = bytes === undefined ? [] : ["--maxmemory", String(bytes), "--maxmemory-policy", "allkeys-lru"];
      const store = share === undefined ? undefined : await startRedis(limits);
      const options = ["--quiet", "--threads", "1", "--context", "640", "--blocks", String(blocks)];
      const workers = await Promise.all(["a", "b"].map(() => startWorker(options, store)));
      let [prompts, reused, kept] = [0, 0, undefined];
      for (const [at, { prompt, tenant }] of trace.entries()) {
        // Tenants have no keys here: a first token of their own keeps them apart, as salts do.
        const own = [1000 + Number(tenant.split(" ")[1]), ...prompt.slice(1)];
        const body = { prompt: own, max_tokens: 1, temperature: 0 };
        const { usage } = await complete(workers[at % workers.length].address, body);
        prompts += usage.prompt_tokens;
        reused += usage.prompt_tokens_details.cached_tokens;
      }
      const least = await metric(workers[0], "insitu_store_least_tokens");
      if (store !== undefined) kept = Number(await redisCommand(store, "DBSIZE"));
      const fetched =
        (await metric(workers[0], "insitu_store_hits_total")) + (await metric(workers[1], "insitu_store_hits_total"));
      const found = hitRate(named, { workers: 2, blocks, hash: false, store: kept, leastBlocks: least / 16 });
      console.log(
        `${store === undefined ? "no store" : `a store of ${kept} of ${distinct} blocks`}: ${percent(reused / prompts)} of ${prompts} tokens in ${trace.length} requests reused, ${percent(found.share)} by simulation` +
          (store === undefined ? "" : `; ${fetched} blocks fetched, ${found.fetched} by simulation`),
      );
      endAll();
    }
  } finally {
    endAll();
  }
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

async function metric({ address }, name) {
  const page = await (await fetch(`${address}/metrics`)).text();
  const text = new RegExp(`^${name} (\\S+)`, "m").exec(page)?.[1] ?? "0";
  return text === "+Inf" ? Infinity : Number(text);
}
