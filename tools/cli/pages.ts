/** `insitu pages`: reads prompts on pages, goes on with all of them at once, and draws the pool: blocks, owners, what is shared, what is free. */
import { writeFile } from "node:fs/promises";
import { InsituError } from "#insitu/base/error.js";
import type { PagedState } from "#insitu/cache/paged-state.js";
import type { Sequence } from "#insitu/cache/sequence.js";
import type { CausalLM } from "#insitu/entry/node.js";
import type { Command } from "#insitu/cli/command.js";
import { toolSummaries } from "#insitu/cli/tools.js";
import { loadModel, numberOf, pageOptions } from "#insitu/cli/language-model.js";
import { poolSvg } from "./pages-svg.js";
import { poolText } from "./pages-text.js";
import { type PoolView, viewPool } from "./pages-view.js";
import { UsageError } from "#insitu/cli/usage.js";

const beginning =
  "Once upon a time there lived near a great forest a poor woodcutter with his wife and his two children. They had little to eat, and when a great famine came over the land, they sat by the fire in the evening and did not know what to do. Then the wife said: ";

/** What the embedded model goes on with when nobody says what. */
const firstPrompts = [
  `${beginning}"Listen, husband, early tomorrow morning we will take the children out into the forest."`,
  `${beginning}"The wolf has come to the door again, and he asks for bread."`,
  `${beginning}"Let us wait until the moon is up."`,
];

/** Read first and let go of: its blocks are kept until the room is needed. */
const toldBefore =
  "There was once a queen who had a golden ball, and every day she went to the well under the old lime tree in the garden and threw it up and caught it again.";

/** Draws a pool of blocks on a real run. */
export const pages: Command = {
  name: "pages",
  positionals: "[prompt…]",
  arity: [0, 64],
  summary: toolSummaries.pages,
  options: {
    model: { value: "name", describes: "a folder in the hub's layout, an ONNX file in it, or owner/name on the hub" },
    variant: { value: "name", describes: "which ONNX file: q4 is onnx/model_q4.onnx" },
    "max-tokens": { value: "N", describes: "new tokens of each completion (default: 24)" },
    forks: { value: "N", describes: "completions of the last prompt, each on its own fork (default: 2)" },
    "block-size": { value: "N", describes: "tokens in a block (default: 16)" },
    blocks: { value: "N", describes: "blocks of the pool (default: 48)" },
    "cache-type": pageOptions["cache-type"],
    svg: { value: "file", describes: "draw the pool into this file" },
    json: { describes: "the pool as JSON: { statistics, blocks, texts, … }" },
    backend: { value: "name", describes: "wasm or reference" },
    threads: { value: "N", describes: "how many threads (default: all cores)" },
  },
  async run({ positionals, options }) {
    const { svg } = options;
    const count = whole("max-tokens", numberOf(options, "max-tokens") ?? 24, 0);
    const forks = whole("forks", numberOf(options, "forks") ?? 2, 1);
    const lm = await loadModel({ blocks: "48", ...options, cache: "paged" });
    try {
      const view = await tell(lm, lm.pages!, positionals, count, forks);
      if (typeof svg === "string") await save(svg, poolSvg(view, "Texts on pages"));
      if (options["json"] === true) console.log(JSON.stringify(view, null, 2));
      else {
        console.log(poolText(view, process.stdout.columns || 100));
        console.log(typeof svg === "string" ? `\nthe picture is in ${svg}` : "\n--svg pool.svg draws it");
      }
      return 0;
    } finally {
      await lm.release();
    }
  },
};

/** Reads the prompts, each on what the others have read of it, and makes tokens for all of them in one run a token. */
async function tell(
  lm: CausalLM,
  pool: PagedState,
  given: readonly string[],
  count: number,
  forks: number,
): Promise<PoolView> {
  const prompts = given.length > 0 ? given : firstPrompts;
  if (given.length === 0) {
    const sequence = pool.add("told before");
    await pool.step([{ sequence, tokens: lm.tokenizer.encode(toldBefore) }]);
    sequence.release();
  }
  const open: { readonly sequence: Sequence; readonly tokens: number[]; next: number }[] = [];
  for (const [at, prompt] of prompts.entries()) {
    const tokens = [...lm.tokenizer.encode(prompt)];
    if (tokens.length === 0) throw new InsituError("invalid-argument", `prompt ${at + 1} is empty`);
    const sequence = pool.add(`text ${at + 1}`, tokens);
    const [{ last }] = await pool.step([{ sequence, tokens: tokens.slice(sequence.length) }]);
    open.push({ sequence, tokens, next: likeliest(last, 0) });
    for (let fork = 1; at === prompts.length - 1 && fork < forks; fork++)
      open.push({
        sequence: sequence.fork(`text ${at + 1}, fork ${fork}`),
        tokens: [...tokens],
        next: likeliest(last, fork),
      });
  }
  for (let made = 0; made < count; made++) {
    const out = await pool.step(open.map(({ sequence, next }) => ({ sequence, tokens: [next] })));
    for (const [at, text] of open.entries()) {
      text.tokens.push(text.next);
      text.next = likeliest(out[at].last, 0);
    }
  }
  const texts = new Map(open.map(({ sequence, tokens }) => [sequence.name, lm.tokenizer.decode(tokens)]));
  return viewPool(pool.pool, pool.blockBytes, (name) => texts.get(name) ?? "");
}

/** The token with the most logit, or the one with the second most, and so on. */
function likeliest(logits: Float32Array, rank: number): number {
  return Array.from(logits.keys()).toSorted((a, b) => logits[b] - logits[a])[rank];
}

function whole(name: string, value: number, least: number): number {
  if (!Number.isSafeInteger(value) || value < least)
    throw new UsageError(`--${name} must be a whole number from ${least} on, got ${value}`);
  return value;
}

async function save(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InsituError("invalid-argument", `--svg ${path} cannot be written: ${why}`, { cause });
  }
}
