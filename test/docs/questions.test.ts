// Questions that users of this and of similar libraries ask most, and where the docs answer them: no more than two links away from README, under a
// heading that can be linked to.
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const textOf = (path: string): string => readFileSync(join(root, path), "utf8");

/** A question, the page and heading with its answer, and words of the answer. */
const questions: readonly (readonly [question: string, place: string, answer: RegExp])[] = [
  // Asked of similar libraries.
  [
    "Do tokens get slower at 2,048 or 4,096 tokens?",
    "faq#does-it-get-slower-with-a-longer-conversation",
    /4,096 tokens/,
  ],
  ["Is there a static cache that is not copied?", "in-place#the-plain-form", /full capacity from the start/],
  ["How fast is decoding on WebGPU?", "performance#on-a-gpu", /insitu, generate/],
  ["Does memory leak from chunk to chunk?", "faq#does-memory-grow", /allocates nothing/],
  ["Does the GPU's memory grow with Whisper in transformers.js?", "onnxruntime#what-runs-in-place", /Whisper/],
  ["Does it run Qwen3.5, Gemma 4, gpt-oss?", "faq#which-models-run", /Gemma 4[^]*tests/],
  ["Why does iOS or Safari close the tab?", "browsers#large-models-phones-and-safari", /1\.5 GB/],
  ["WebGPU in Safari without JSPI?", "faq#safari-and-iphones", /no JSPI/],
  ["How are GPU submissions kept short on phones?", "faq#safari-and-iphones", /tokensAtOnce: 1/],
  [
    "Are downloads resumed and verified?",
    "browsers#models-in-the-browser-offline-and-storage",
    /continues where it stopped/,
  ],
  ["Where are models stored, how are they removed?", "faq#where-are-models-stored", /models remove/],
  ["The browser's storage is full: what now?", "troubleshooting#by-symptom", /QuotaExceededError/],
  ["Models of more than 2 or 4 GB in a page?", "browsers#large-models-phones-and-safari", /over several memories/],
  ["Are weights held in host memory too?", "webgpu#memory", /do not stay in host memory/],
  ["A weight is larger than a GPU buffer may be?", "webgpu#limits", /several buffers/],
  ["The device is lost in long prompts?", "troubleshooting#device-lost", /`chunk`/],
  ["Does it fall back to the CPU in silence?", "browsers#what-may-be-missing", /Nothing falls back in silence/],
  ["NaN with q4f16 or fp16?", "troubleshooting#by-symptom", /overflow float16/],
  ["Are quantized models right on WebGPU?", "faq#how-do-i-know-that-results-are-right", /4-bit and 8-bit/],
  ["JSON that matches a schema, in pages too?", "structured-output", /in the browser/],
  ["Tools in chats?", "structured-output#tool-calls", /lm\.chat\(\{ tools \}\)/],
  ["A native addon is not found; one executable file?", "faq#one-executable-file", /bun build --compile/],
  ["Electron, React Native, extensions?", "faq#which-systems", /Electron/],
  ["My own conversion fails?", "faq#my-export-fails-but-the-hubs-file-works", /insitu check/],
  [
    "Is a prompt read again at every turn, with hybrid models too?",
    "sessions#a-decoder-with-its-caches-in-a-state",
    /not read again at every turn/,
  ],
  // Others.
  ["Which model should I start with?", "choosing-a-model#start-here", /qwen3-0\.6b/],
  ["How much memory does a model need?", "choosing-a-model#how-much-memory", /112 KB/],
  ["Does it work offline?", "faq#does-it-work-offline", /insitu pull/],
  ["How do I stop a generation, after a time?", "recipes#stop-after-a-time", /AbortSignal\.timeout/],
  ["How do I set a system prompt?", "faq#how-do-i-set-a-system-prompt", /role: "system"/],
  ["How do I count tokens?", "faq#how-do-i-count-tokens", /encode/],
  ["How do I stream over HTTP?", "recipes#stream-over-http", /toReadableStream/],
  ["API keys, and many users of one server?", "serve#running-it", /api-key-file/],
  ["A KV cache that outlives a restart?", "serve#running-it", /--prefix-cache folder/],
  ["Embeddings, RAG?", "embeddings", /documents for a query/],
  ["Why is it slow in my page?", "faq#why-is-it-slow-in-my-page", /two HTTP headers/],
  ["LoRA, fine-tuned models?", "faq#can-i-use-my-own-fine-tuned-model-or-a-lora-adapter", /Merge the adapter/],
  ["Behind a proxy, gated models?", "faq#does-the-download-work-behind-a-proxy", /HF_TOKEN/],
  ["What is max_new_tokens, dtype, device called here?", "coming-from#transformersjs", /maxTokens/],
  ["Which licence, commercially too?", "faq#may-i-use-it-commercially", /Apache-2\.0/],
];

/** The pages that a page links to. */
const linksOf = (path: string): string[] =>
  [...textOf(path).matchAll(/\]\(([^)\s#:]+)(?:#[^)]*)?\)/g)]
    .map(([, target]) => join(path, "..", target))
    .filter((target) => existsSync(join(root, target)) && statSync(join(root, target)).isFile());

/** The text under a heading, down to the next one of its depth; the whole page without one. */
function sectionOf(page: string, anchor: string | undefined): string | undefined {
  if (anchor === undefined) return page;
  const parts = page.split(/^(?=#{1,6} )/m);
  const slugOf = (part: string): string =>
    part
      .split("\n", 1)[0]
      .replace(/^#+ /, "")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-");
  const depthOf = (part: string): number => /^#*/.exec(part)![0].length;
  const at = parts.findIndex((part) => slugOf(part) === anchor);
  if (at < 0) return undefined;
  const end = parts.findIndex((part, next) => next > at && depthOf(part) <= depthOf(parts[at]));
  return parts.slice(at, end < 0 ? undefined : end).join("");
}

const oneClick = linksOf("README.md");
const twoClicks = new Set([...oneClick, ...oneClick.filter((path) => path.endsWith(".md")).flatMap(linksOf)]);

test("there are forty of them", () => expect(questions).toHaveLength(40));

test.each(questions)("%s", (_, place, answer) => {
  const [name, anchor] = place.split("#");
  const path = `docs/${name}.md`;
  expect(twoClicks).toContain(path);
  expect(sectionOf(textOf(path), anchor), `${path} has no heading #${anchor}`).toMatch(answer);
});
