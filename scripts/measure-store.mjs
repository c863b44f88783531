// What a store is worth: the time to the first token of a prompt that no worker has read, that another worker has read and put into Redis, and
// that this worker has read; for both cache types, with the store nearer and farther. Needs a build and redis-server.
//   node scripts/measure-store.mjs [tokens] [--model folder]
import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: "string" }, prompts: { type: "string", default: "5" }, threads: { type: "string" } },
});
const length = Number(positionals[0] ?? 1000);
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const children = [];

const listening = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

async function redis() {
  const probe = createServer();
  const port = await listening(probe);
  await new Promise((resolve) => probe.close(resolve));
  const child = spawn("redis-server", ["--port", port, "--save", "", "--appendonly", "no"]);
  children.push(child);
  await new Promise((resolve) =>
    child.stdout.on("data", (line) => String(line).includes("Ready to accept") && resolve()),
  );
  return port;
}

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

async function worker(cacheType, store) {
  const options = [
    "--port",
    "0",
    "--cache-type",
    cacheType,
    "--context",
    String(length + 32),
    "--blocks",
    String(Math.ceil((length / 16) * 8)),
  ];
  if (values.model !== undefined) options.push("--model", values.model);
  if (values.threads !== undefined) options.push("--threads", values.threads);
  if (store !== undefined) options.push("--store", `redis://127.0.0.1:${store}`);
  const child = spawn(process.execPath, [main, "serve", ...options]);
  children.push(child);
  let told = "";
  child.stderr.on("data", (text) => (told += text));
  const address = await new Promise((resolve, reject) => {
    child.stdout.once("data", (line) => resolve(/http:\S+/.exec(line)[0]));
    child.once("exit", () => reject(new Error(told)));
  });
  return { child, address, told: told.split("\n")[0].replace("insitu: ", "") };
}

async function ask({ address }, prompt) {
  const began = performance.now();
  const response = await fetch(`${address}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ prompt, max_tokens: 1, temperature: 0 }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return { milliseconds: performance.now() - began, cached: answer.usage.prompt_tokens_details.cached_tokens };
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

try {
  const prompts = Array.from({ length: Number(values.prompts) }, (_, text) =>
    Array.from({ length }, (_, at) => 300 + ((at * 37 + text * 101) % 1000)),
  );
  console.log(`time to the first token of ${length} tokens, median of ${prompts.length}`);
  for (const cacheType of ["same", "int8"]) {
    const port = await redis();
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
  for (const child of children) child.kill("SIGKILL");
}
