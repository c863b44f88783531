// Text over HTTP as it is made: `node examples/server.mjs [port]`, then `curl -N 'http://127.0.0.1:8080/?prompt=The+wolf'`.
// Whoever hangs up ends the text. Requests wait for each other: one text at a time is the fastest way through.
import { createServer } from "node:http";
import { CausalLM } from "insitu";

const lm = await CausalLM.load();
let turn = Promise.resolve();

async function answer(request, response) {
  const url = new URL(request.url, "http://localhost");
  const stop = new AbortController();
  response.on("close", () => stop.abort());
  try {
    const maxTokens = Number(url.searchParams.get("max_tokens") ?? 100);
    const text = lm.generate(url.searchParams.get("prompt") ?? "", { maxTokens, signal: stop.signal });
    response.setHeader("content-type", "text/plain; charset=utf-8");
    for await (const piece of text) response.write(piece.text);
    response.end();
  } catch (error) {
    if (!stop.signal.aborted) response.writeHead(400).end(`${error.message}\n`); // one sentence: an empty prompt, an impossible option
  }
}

const server = createServer((request, response) => (turn = turn.then(() => answer(request, response))));
server.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
