// The server under clients of every kind for minutes: after each phase all blocks are free, a known prompt gets its known text, and memory is
// sampled. Exits with 1 where an answer is not what it may be, or memory grows. Needs a build.
//   node scripts/soak/serve.mjs [--minutes 60] [--phase 30] [--svg file]      (minutes also by INSITU_SOAK_MINUTES, the seed by INSITU_SEED)
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Chance } from "./asks.mjs";
import { Clients } from "./clients.mjs";
import { memorySvg } from "./picture.mjs";
import { keys, startServer, textAlone } from "./server.mjs";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: process.env.INSITU_SOAK_MINUTES ?? "60" },
    phase: { type: "string", default: "30" },
    svg: { type: "string" },
  },
});
const [minutes, phaseSeconds] = [Number(values.minutes), Number(values.phase)];
const seed = Number(process.env.INSITU_SEED ?? Date.now() % 1e9);
const mebibyte = 2 ** 20;
/** What may be added between the second and the last quarter of a run that is long enough to tell. */
const mostGrowth = { heap: 8 * mebibyte, rss: 0.1 };
const leastMinutes = 20;
/** Milliseconds in which connections that were left are closed, and what waits for the disk is written. */
const settling = 1000;

const known = { prompt: "There was once a wolf who", maxTokens: 24 };
const samples = [];
let began = 0;
const passed = () => (performance.now() - began) / 60_000;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function sample(server, collects) {
  const at = passed();
  const { rss, heapUsed, external, arrayBuffers } = await server.memory(collects);
  samples.push({ minutes: at, rss, external, arrayBuffers, ...(collects ? { heap: heapUsed } : {}) });
}

/** Clients of every kind until the phase is over; the first that is answered wrongly ends it. */
async function phase(server, clients, number) {
  const chance = new Chance(seed + number);
  const count = chance.oneOf([1, 4, 12, 24, 40]);
  const until = performance.now() + phaseSeconds * 1000;
  let failed;
  const client = async (own) => {
    while (failed === undefined && performance.now() < until)
      await clients.act(own).catch((error) => (failed ??= error));
  };
  const all = Promise.all(Array.from({ length: count }, (_, at) => client(new Chance(seed + number * 1000 + at + 1))));
  const watching = setInterval(() => void sample(server, false).catch(() => {}), 5000);
  await all;
  clearInterval(watching);
  if (failed !== undefined) throw failed;
  return count;
}

/** Waits until nobody is served any more: every block must be free then, and the known text right. */
async function settle(server, right) {
  const limit = performance.now() + 60_000;
  for (;;) {
    const figure = await server.figures();
    const left = ["texts_waiting", "texts_running", "blocks_used"].map(figure);
    if (left.every((count) => count === 0)) break;
    if (performance.now() > limit) throw new Error(`waiting, running, blocks used after a minute: ${left}`);
    await wait(20);
  }
  for (const key of keys) {
    const response = await fetch(`${server.address}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ prompt: known.prompt, max_tokens: known.maxTokens, temperature: 0 }),
    });
    const body = await response.json();
    if (body.choices?.[0]?.text !== right)
      throw new Error(`the known prompt was answered ${JSON.stringify(body)}, right is ${JSON.stringify(right)}`);
  }
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** A figure of the second and of the last quarter. */
function quarters(of, figure) {
  const told = samples.filter((each) => of(each) !== undefined);
  const within = (from, to) =>
    figure(told.filter(({ minutes: at }) => at >= from * minutes && at <= to * minutes).map(of));
  return [within(0.25, 0.5), within(0.75, 2)];
}

const text = (bytes) => (bytes === undefined ? "" : (bytes / mebibyte).toFixed(1));

async function run() {
  const right = await textAlone(known.prompt, known.maxTokens);
  const server = await startServer();
  began = performance.now();
  try {
    const clients = new Clients(server.address, keys, Math.min(6000, phaseSeconds * 500));
    console.log(`seed ${seed}; memory in MiB`);
    console.log("minutes  clients  requests  resident  live heap  buffers  tokens made  reused  preempted");
    for (let number = 0; passed() < minutes; number++) {
      const count = await phase(server, clients, number);
      await settle(server, right);
      await wait(settling);
      await sample(server, true);
      const { minutes: at, rss, heap, arrayBuffers } = samples.at(-1);
      const figure = await server.figures();
      const asked = [...clients.counts].reduce(
        (sum, [what, times]) => sum + (what.startsWith("status") ? 0 : times),
        0,
      );
      const cells = [
        [at.toFixed(1), 7],
        [count, 8],
        [asked, 9],
        [text(rss), 9],
        [text(heap), 10],
        [text(arrayBuffers), 8],
        [figure("new_tokens_total"), 12],
        [figure("reused_tokens_total"), 7],
        [figure("preemptions_total"), 10],
      ];
      console.log(cells.map(([cell, width]) => String(cell).padStart(width)).join(" "));
    }
    console.log(
      [...clients.counts]
        .toSorted(([a], [b]) => a.localeCompare(b))
        .map(([what, count]) => `${count} × ${what}`)
        .join(", "),
    );
    // In the middle of what clients ask it is told to end.
    const last = phase(server, clients, 999).catch(() => {});
    await wait(Math.min(1000, phaseSeconds * 500));
    const how = await server.stop();
    await last;
    if (how !== 0) throw new Error(`the server ended with ${how} when it was told to`);
  } finally {
    server.kill();
  }
  if (values.svg !== undefined)
    writeFileSync(
      values.svg,
      memorySvg(
        samples,
        "The server's memory under clients that come, leave and stall",
        `${cpus()[0].model}, ${cpus().length} cores, Node ${process.version}; node scripts/soak/serve.mjs --minutes ${minutes}, seed ${seed}`,
      ),
    );
  if (minutes < leastMinutes) return;
  // What is under way comes and goes; what is left behind shows in the least of the heap.
  const heap = quarters(
    (each) => each.heap,
    (numbers) => Math.min(...numbers),
  );
  const rss = quarters((each) => each.rss, median);
  console.log(
    `the second and the last quarter: least live heap ${heap.map(text).join(" and ")}, median resident ${rss.map(text).join(" and ")} MiB`,
  );
  if (heap[1] - heap[0] > mostGrowth.heap || rss[1] / rss[0] - 1 > mostGrowth.rss) throw new Error("memory grows");
}

await run().catch((error) => {
  console.error(`seed ${seed}: ${error.stack}`);
  process.exitCode = 1;
});
