// The library and the server as a program has them, under whichever runtime runs this: Node, Bun or Deno. Prints what came out as JSON.
import { CausalLM } from "insitu";
import { createServer } from "insitu/serve";

const prompt = "There was once a wolf who";
const limit = { prompt, max_tokens: 16, temperature: 0 };

/** Listens as the runtime does it; a port that is free. */
async function listen(fetch) {
  if (globalThis.Bun !== undefined) {
    const listening = globalThis.Bun.serve({ fetch, port: 0, hostname: "127.0.0.1", idleTimeout: 0 });
    return { port: listening.port, stop: () => listening.stop(true) };
  }
  if (globalThis.Deno !== undefined) {
    const listening = globalThis.Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, fetch);
    return { port: listening.addr.port, stop: () => listening.shutdown() };
  }
  const { serve } = await import(process.argv[2]);
  return new Promise((resolve) => {
    const listening = serve({ fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) =>
      resolve({ port, stop: () => listening.close() }),
    );
  });
}

const linear = await CausalLM.load(undefined, { threads: 2 });
const generated = await linear.generate(prompt, { maxTokens: 16, temperature: 0 }).text();
await linear.release();

const lm = await CausalLM.load(undefined, { cache: "paged", batchInvariant: true });
const server = createServer(lm, { model: "embedded" });
const { port, stop } = await listen(server.fetch);
await server.ready;
const address = `http://127.0.0.1:${port}`;

const post = (path, body, signal) =>
  fetch(address + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
    signal,
  });
const piecesOf = (events) =>
  [...events.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data).choices[0].text ?? "");

/** Whether a text is being made, or a block is in use. */
async function isBusy() {
  const told = await (await fetch(`${address}/metrics`)).text();
  return ["texts_running", "texts_waiting", "blocks_used"].some((name) => !told.includes(`\ninsitu_${name} 0\n`));
}

/** A client that leaves: whether the server sees it, and how many tokens were made for nobody. */
async function leave(stream) {
  const leaving = new AbortController();
  const asked = post("/v1/completions", { prompt, max_tokens: 480, ignore_eos: true, stream }, leaving.signal);
  asked.catch(() => {});
  if (stream) await (await asked).body.getReader().read();
  while (!(await isBusy()));
  leaving.abort();
  while (await isBusy());
}

const whole = await (await post("/v1/completions", limit)).json();
const streamed = await (await post("/v1/completions", { ...limit, stream: true })).text();
const beside = await Promise.all(
  [1, 2, 3].map(async () => (await (await post("/v1/completions", limit)).json()).choices[0].text),
);
const statuses = [];
for (const [path, body] of [
  ["/v1/completions", "{"],
  ["/v1/chat/completions", { messages: [] }],
  ["/v1/nowhere", {}],
])
  statuses.push((await post(path, body)).status);
await leave(true);
await leave(false);
const before = (await (await fetch(`${address}/metrics`)).text()).match(/^insitu_new_tokens_total (\d+)$/m)[1];
const last = post("/v1/completions", { ...limit, max_tokens: 40, stream: true });
const lastText = last.then((response) => response.text());
await last;
const drained = server.drain(10_000);
const health = (await fetch(`${address}/health`)).status;
const finished = (await lastText).endsWith("data: [DONE]\n\n");
await drained;
await stop();
await lm.release();

console.log(
  JSON.stringify({
    generated,
    whole: whole.choices[0].text,
    streamed: piecesOf(streamed).join(""),
    beside,
    statuses,
    leftEarly: Number(before) < 16 * 5 + 2 * 480,
    health,
    finished,
  }),
);
