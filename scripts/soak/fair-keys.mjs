// 64 keys of one server, one of which floods it: what the others wait, beside what each waits alone and what they wait without the flood. Prints
// medians and ratios, and exits with 1 where a request of the others was refused or their median is above three times that of a key alone. Needs a build.
//   node scripts/soak/fair-keys.mjs [--seconds 40] [--connections 64] [--n 2] [--prompt 2] [--tokens 400] [--pause 20]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "40" },
    connections: { type: "string", default: "64" },
    n: { type: "string", default: "2" },
    prompt: { type: "string", default: "2" },
    tokens: { type: "string", default: "400" },
    pause: { type: "string", default: "20" },
  },
});
const [seconds, connections, n, words, tokens, pause] = [
  "seconds",
  "connections",
  "n",
  "prompt",
  "tokens",
  "pause",
].map((name) => Number(values[name]));
const mostRatio = 3;
const keys = Array.from({ length: 64 }, (_, at) => `fair-key-${String(at).padStart(4, "0")}`);
const [flooding, ...others] = keys;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Starts the server; the address and how to end it. */
async function startServer() {
  const main = fileURLToPath(new URL("../../dist/lib/cli.js", import.meta.url));
  const child = spawn(process.execPath, [main, "serve", "--quiet", "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, INSITU_API_KEY: keys.join() },
  });
  const ended = once(child, "exit");
  const line = await Promise.race([once(child.stdout, "data"), ended.then(() => undefined)]);
  const address = /http:\S+/.exec(String(line?.[0]))?.[0];
  if (address === undefined) throw new Error("the server ended before it listened");
  return { address, stop: () => (child.kill("SIGKILL"), ended) };
}

/** Asks for a completion; its status, and milliseconds to the first token and to the end. */
function ask(address, key, agent, body) {
  const began = performance.now();
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  return new Promise((resolve) => {
    const asking = request(new URL("/v1/completions", address), { method: "POST", agent, headers }, (response) => {
      let first;
      response.on("data", () => (first ??= performance.now() - began));
      response.on("end", () => resolve({ status: response.statusCode, first, all: performance.now() - began }));
      response.on("error", () => resolve({ status: 0 }));
    });
    asking.on("error", () => resolve({ status: 0 }));
    asking.end(JSON.stringify(body));
  });
}

const agent = new Agent({ keepAlive: true, maxSockets: 1024 });
const short = { prompt: "The wolf", max_tokens: 4, temperature: 0, stream: true, ignore_eos: true };
const askShort = (address, key) => ask(address, key, agent, short);

/** Each of the others asks about once in three seconds, so long. */
async function askAll(address, until) {
  const heard = [];
  await Promise.all(
    others.map(async (key, at) => {
      await wait((3000 * at) / others.length);
      while (performance.now() < until) {
        heard.push(await askShort(address, key));
        await wait(2500 + Math.random() * 1000);
      }
    }),
  );
  return heard;
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
function told(what, heard) {
  const good = heard.filter(({ status }) => status === 200);
  const [first, all] = [median(good.map((each) => each.first)), median(good.map((each) => each.all))];
  const worst = Math.max(...good.map((each) => each.all));
  console.log(
    `${what}: ${heard.length} requests, ${heard.length - good.length} not answered; median to the first token ${first.toFixed(1)} ms, to the end ${all.toFixed(1)} ms; longest ${worst.toFixed(0)} ms`,
  );
  return { first, all, missing: heard.length - good.length };
}

/** Requests of every other key in turn, while nothing else runs. */
async function askAlone(address) {
  const heard = [];
  for (const key of others) heard.push(await askShort(address, key));
  return heard;
}

const server = await startServer();
let code = 1;
try {
  const { address } = server;
  await askAlone(address);
  const before = await askAlone(address);
  told("alone", before);
  const together = told("63 keys without the flood", await askAll(address, performance.now() + (seconds * 1000) / 2));
  let floods = true;
  const counts = {};
  const body = { prompt: "once ".repeat(words).trim(), max_tokens: tokens, ignore_eos: true, n };
  const flood = Array.from({ length: connections }, async () => {
    while (floods) {
      const { status } = await ask(address, flooding, agent, body);
      counts[status] = (counts[status] ?? 0) + 1;
      if (status !== 200) await wait(pause);
    }
  });
  await wait(3000);
  const beside = told("63 keys beside the flood", await askAll(address, performance.now() + seconds * 1000));
  floods = false;
  agent.destroy();
  await Promise.all(flood);
  console.log(`the flood of ${connections} connections, n = ${n}, ${tokens} tokens: ${JSON.stringify(counts)}`);
  await wait(500);
  const alone = told("alone, before and after", [...before, ...(await askAlone(address))]);
  const ratio = (of) =>
    `${(beside.first / of.first).toFixed(2)} (first token), ${(beside.all / of.all).toFixed(2)} (all)`;
  console.log(`beside the flood / alone: ${ratio(alone)}; / without the flood: ${ratio(together)}`);
  code = beside.missing === 0 && beside.all <= mostRatio * alone.all ? 0 : 1;
} finally {
  await server.stop();
}
process.exit(code);
