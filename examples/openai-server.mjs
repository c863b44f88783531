// OpenAI's interface in a program of your own: `node examples/openai-server.mjs [port]`, then point a client at http://127.0.0.1:8080/v1.
// Ends at SIGTERM once the texts under way are finished.
import { createAdaptorServer } from "@hono/node-server";
import { CausalLM } from "insitu";
import { createServer } from "insitu/serve";

const lm = await CausalLM.load(undefined, { cache: "paged" });
const server = createServer(lm, {
  model: "embedded",
  limits: { newTokens: 200, openRequests: 8 },
  log: ({ path, status, milliseconds, newTokens }) => console.error(path, status, `${milliseconds} ms`, newTokens ?? ""),
});
await server.ready;

const http = createAdaptorServer({ fetch: (request) => server.fetch(request) });
http.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${http.address().port}`);
});
process.once("SIGTERM", async () => {
  await server.drain(10_000);
  http.close();
  await lm.release();
});
