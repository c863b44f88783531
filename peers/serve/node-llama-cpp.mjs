// llama.cpp through node-llama-cpp as a server, for `insitu bench serve`: prompts of token ids become streams of token ids, in OpenAI's form. Texts
// are sequences of one context, which node-llama-cpp reads in batches; each goes to the free sequence that begins most like it.
//   node node-llama-cpp.mjs model.gguf texts contextSize threads [layers]
// With the number of the model's layers it computes on a GPU, by Vulkan.
import { createServer } from "node:http";
import { openLlama } from "../llama.mjs";

const [gguf, texts, contextSize, threads, layers] = process.argv.slice(2);
const device = layers === undefined ? {} : { gpu: "vulkan", layers: Number(layers) };
const llama = await openLlama({ gguf, threads: Number(threads), ...device });
// A GPU reads prompts in as many tokens at a time as llama.cpp's own server takes.
const batchSize = layers === undefined ? 512 : 2048;
const { sequences: free } = await llama.createSequences(Number(contextSize), Number(texts), batchSize);
const waiting = [];

const alike = (sequence, tokens) => {
  const known = sequence.contextTokens;
  const different = known.findIndex((token, at) => token !== tokens[at]);
  return different < 0 ? Math.min(known.length, tokens.length) : different;
};

/** The free sequence that begins most like a prompt; waits for one. */
async function take(tokens) {
  if (free.length === 0) await new Promise((resolve) => waiting.push(resolve));
  const best = free.reduce((best, each) => (alike(each, tokens) > alike(best, tokens) ? each : best));
  free.splice(free.indexOf(best), 1);
  return best;
}

function giveBack(sequence) {
  free.push(sequence);
  waiting.shift()?.();
}

async function answer({ prompt, max_tokens: most }, response) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  const sequence = await take(prompt);
  let [made, cached] = [0, 0];
  try {
    // The last token is read in any case: what comes after it is wanted.
    await sequence.adaptStateToTokens(prompt.slice(0, -1));
    cached = sequence.nextTokenIndex;
    const unread = prompt.slice(cached);
    for await (const token of sequence.evaluate(unread, { temperature: 0, yieldEogToken: true })) {
      send({ choices: [{ index: 0, text: ` ${token}`, finish_reason: null }] });
      if (++made === most || response.destroyed) break;
    }
  } finally {
    giveBack(sequence);
  }
  const usage = {
    prompt_tokens: prompt.length,
    completion_tokens: made,
    prompt_tokens_details: { cached_tokens: cached },
  };
  send({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  try {
    await answer(JSON.parse(body), response);
  } catch (error) {
    if (!response.headersSent) response.writeHead(500);
    response.end(`data: ${JSON.stringify({ error: { message: error.message } })}\n\n`);
  }
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
