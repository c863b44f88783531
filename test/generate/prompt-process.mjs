// A process of its own that reads prompts of many lengths with the embedded model: prints, for each, the likeliest next tokens.
// Its argument is the number of threads; prompts, each a list of tokens, are read as JSON.
import { readFileSync } from "node:fs";
import { CausalLM } from "../../dist/index.node.js";

const [threads, prompts] = [Number(process.argv[2]), JSON.parse(readFileSync(0, "utf8"))];
const lm = await CausalLM.load(undefined, { threads, inPlace: "require" });
const tops = [];
for (const prompt of prompts) {
  for await (const { top } of lm.generate(prompt, { maxTokens: 1, temperature: 0, logprobs: 8 })) tops.push(top);
}
await lm.release();
console.log(JSON.stringify(tops));
