// The server under requests that mean harm: each ends within its time, /health is answered meanwhile, memory stays within a bound, and the process
// goes on and makes the text it should. Exits with 1 where not. Needs a build.
//   node scripts/soak/hostile.mjs [--count 10000] [--at-once 16] [--timeout 10] [--schemas] [--judge-time]      (the seed by INSITU_SEED)
import { fork } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { Chance } from "./asks.mjs";
import { hostileAsk } from "./hostile-asks.mjs";
import { keys, startServer, textAlone } from "./server.mjs";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "10000" },
    "at-once": { type: "string", default: "16" },
    timeout: { type: "string", default: "10" },
    schemas: { type: "boolean", default: false },
    /** Fails for the clock too: on a quiet machine. */
    "judge-time": { type: "boolean", default: false },
  },
});
const [count, atOnce, seconds] = [Number(values.count), Number(values["at-once"]), Number(values.timeout)];
const seed = Number(process.env.INSITU_SEED ?? Date.now() % 1e9);
const mostMilliseconds = 250;
const mostResident = 500 * 2 ** 20;
const known = { prompt: "There was once a wolf who", maxTokens: 12 };
/** What an answer may be: never a failure of the server's own. */
const statuses = new Set(["200", "400", "403", "404", "408", "413", "415", "429", "504", "left"]);
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Sends one; the status, or how it ended else. */
function send(address, { path, bytes, headers, sending }, chance) {
  return new Promise((resolve) => {
    const asked = request(address + path, {
      method: "POST",
      agent: false,
      headers: { ...headers, authorization: `Bearer ${chance.oneOf(keys)}`, "content-length": bytes.length },
    });
    // A body that is longer than any may be, or whose headers are refused, is not read to its end.
    const isOdd = Object.keys(headers).length > 1 || headers["content-type"] !== "application/json";
    const mayBreak = sending !== "at once" || bytes.length > 4 << 20 || isOdd;
    asked.on("error", (error) => resolve(mayBreak ? "left" : `error ${error.code}`));
    asked.on("close", () => resolve("left"));
    asked.on("response", (response) => {
      if (sending === "and reads nothing") return void setTimeout(() => asked.destroy(), chance.below(3000));
      response.on("end", () => resolve(String(response.statusCode)));
      response.on("error", () => resolve("left"));
      response.resume();
    });
    const half = Math.floor(bytes.length / 2);
    if (sending === "at once" || sending === "and reads nothing") return void asked.end(bytes);
    asked.write(bytes.subarray(0, half));
    if (sending === "and leaves") return void setTimeout(() => asked.destroy(), chance.below(200));
    // What never comes is waited for until the request's time is up.
    if (sending === "by half" && chance.happens(0.7)) return void setTimeout(() => asked.destroy(), chance.below(2000));
    if (sending === "slowly") setTimeout(() => asked.end(bytes.subarray(half)), chance.below(3000));
  });
}

async function run() {
  const right = await textAlone(known.prompt, known.maxTokens);
  const server = await startServer({ timeout: seconds, "max-queue": 256, "prefix-cache": undefined });
  const poller = fork(fileURLToPath(new URL("health-poller.mjs", import.meta.url)), [server.address]);
  const counts = new Map();
  const note = (what) => counts.set(what, (counts.get(what) ?? 0) + 1);
  const wrong = [];
  let [next, resident, late, held, longest] = [0, 0, 0, 0, 0];
  const look = async () => {
    const now = await server.memory(false);
    resident = Math.max(resident, now.rss);
    late = Math.max(late, now.late);
    held = Math.max(held, now.held);
  };
  const client = async () => {
    while (next < count && wrong.length < 5) {
      const number = next++;
      const chance = new Chance(seed + number);
      const ask = hostileAsk(chance, values.schemas);
      const began = performance.now();
      const ended = await Promise.race([
        send(server.address, ask, chance),
        wait((seconds + 5) * 1000).then(() => "no end"),
      ]);
      const took = performance.now() - began;
      longest = Math.max(longest, took);
      note(`${ask.what}: ${ended}`);
      const isLate = values["judge-time"] && took > (seconds + 1) * 1000;
      if (isLate || !statuses.has(ended))
        wrong.push(
          `request ${number} (${ask.what}, ${ask.path}, ${ask.bytes.length} bytes, sent ${ask.sending}) ended with ${ended} after ${Math.round(took)} ms: ${ask.bytes.subarray(0, 200)}`,
        );
    }
  };
  try {
    await look();
    [late, held] = [0, 0];
    let isAsked = false;
    const looking = setInterval(() => {
      if (isAsked) return;
      isAsked = true;
      void look()
        .catch(() => {})
        .then(() => (isAsked = false));
    }, 100);
    const began = performance.now();
    await Promise.all(Array.from({ length: atOnce }, client));
    const passed = (performance.now() - began) / 1000;
    clearInterval(looking);
    const told = once(poller, "message");
    poller.send("tell");
    const [health] = await told;
    await look();
    const response = await fetch(`${server.address}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys[0]}` },
      body: JSON.stringify({ prompt: known.prompt, max_tokens: known.maxTokens, temperature: 0 }),
    });
    const body = await response.json();
    const ms = (number) => `${number.toFixed(1)} ms`;
    console.log(
      `seed ${seed}: ${next} requests, ${atOnce} at a time, in ${passed.toFixed(0)} s; the longest took ${ms(longest)}`,
    );
    for (const [what, times] of [...counts].toSorted(([a], [b]) => a.localeCompare(b)))
      console.log(`  ${times} × ${what}`);
    console.log(
      `/health: ${health.polls} polls, median ${ms(health.median)}, P99 ${ms(health.p99)}, max ${ms(health.max)}, ${health.late} above ${mostMilliseconds} ms, ${health.failed} failed; the poller's own clock was late by ${ms(health.own)} at most`,
    );
    console.log(
      `the server's event loop was late by ${ms(late)} at most, and took the processor for ${ms(held)} in one turn; resident ${(resident / 2 ** 20).toFixed(0)} MiB at most`,
    );
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
    if (body.choices?.[0]?.text !== right) throw new Error(`the known prompt was answered ${JSON.stringify(body)}`);
    if (health.failed > 0) throw new Error(`/health failed ${health.failed} times`);
    if (resident > mostResident) throw new Error("it took more memory than it may");
    // A poll may be late for others on the machine: what the server itself did shows in the processor's time too.
    if (values["judge-time"] && Math.min(health.max, late, held || late) > mostMilliseconds)
      throw new Error("/health was answered too late");
    const how = await server.stop();
    if (how !== 0) throw new Error(`the server ended with ${how} when it was told to`);
  } finally {
    poller.kill();
    server.kill();
  }
}

await run().catch((error) => {
  console.error(`seed ${seed}: ${error.stack}`);
  process.exitCode = 1;
});
