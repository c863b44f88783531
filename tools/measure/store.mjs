// What a store is worth: the time to the first token of a prompt that no worker has read, that another worker has read and put into Redis, and
// that this worker has read; for both cache types, with the store nearer and farther. Needs a build and redis-server.
//   node tools/measure/store.mjs [tokens] [--model folder]
import { connect, createServer } from "node:net";
import { parseArgs } from "node:util";
import { complete, endAll, listening, median, startRedis, startWorker } from "../../scripts/cluster-parts.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: "string" }, prompts: { type: "string", default: "5" }, threads: { type: "string" } },
});
const length = Number(positionals[0] ?? 1000);
/** A port that leads to another one, with so many milliseconds more for a round trip. */
function farther(port, milliseconds) {
  const pass = (from, to) => {
    from.on("data", (chunk) => setTimeout(() => to.writable && to.write(chunk), milliseconds / 2));
    from.on("close", () => setTimeout(() => to.destroy(), milliseconds / 2));
    from.on("error", () => {});
  };
  const server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    far.setNoDelay();
    near.setNoDelay();
    pass(near, far);
    pass(far, near);
  });
  server.unref();
  return listening(server);
}

function worker(cacheType, store) {
  const options = [
    "--cache-type",
    cacheType,
    "--context",
    String(length + 32),
    "--blocks",
    String(Math.ceil(length / 2)),
  ];
  if (values.model !== undefined) options.push("--model", values.model);
  if (values.threads !== undefined) options.push("--threads", values.threads);
  return startWorker(options, store);
}

async function ask(asked, prompt) {
  const { milliseconds, usage } = await complete(asked.address, { prompt, max_tokens: 1, temperature: 0 });
  return { milliseconds, cached: usage.prompt_tokens_details.cached_tokens };
}

try {
  const prompts = Array.from({ length: Number(values.prompts) }, (_, text) =>
    Array.from({ length }, (_, at) => 300 + ((at * 37 + text * 101) % 1000)),
  );
  console.log(`time to the first token of ${length} tokens, median of ${prompts.length}`);
  for (const cacheType of ["same", "int8"]) {
    const port = await startRedis();
    const first = await worker(cacheType, port);
    const cold = await worker(cacheType);
    await ask(cold, prompts[0].slice(0, 40));
    for (const prompt of prompts) await ask(first, prompt);
    first.child.kill();
    await new Promise((resolve) => first.child.once("exit", resolve));
    for (const added of [0, 5, 50]) {
      const second = await worker(cacheType, await farther(port, added));
      await ask(second, prompts[0].slice(0, 40));
      const times = { cold: [], store: [], own: [] };
      let cached = 0;
      for (const [at, prompt] of prompts.entries()) {
        const fresh = prompt.map((token) => 300 + ((token + 13 * (added + 1) + at) % 1000));
        times.cold.push((await ask(cold, fresh)).milliseconds);
        const fetched = await ask(second, prompt);
        times.store.push(fetched.milliseconds);
        cached += fetched.cached;
        times.own.push((await ask(second, prompt)).milliseconds);
      }
      const [computed, fetched, own] = [times.cold, times.store, times.own].map(median);
      console.log(
        `pages ${cacheType === "same" ? "float32" : cacheType}, ${added} ms away: computed ${computed.toFixed(0)} ms, from the store ${fetched.toFixed(0)} ms (${(fetched / computed).toFixed(2)}), in the pool ${own.toFixed(0)} ms; ${cached / prompts.length} tokens reused; ${second.told}`,
      );
      second.child.kill();
    }
    cold.child.kill();
  }
} finally {
  endAll();
}
