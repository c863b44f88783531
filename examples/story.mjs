// A story, token by token, and what it took: `node examples/story.mjs "The old woman said" [seed]`.
import { CausalLM } from "insitu";

const [prompt = "Once upon a time there was a king", seed] = process.argv.slice(2);
const lm = await CausalLM.load(); // or a folder, or owner/name on the hub
const story = lm.generate(prompt, { maxTokens: 80, ...(seed === undefined ? {} : { seed: Number(seed) }) });

process.stdout.write(prompt);
for await (const { text } of story) process.stdout.write(text);

const { tokensPerSecond, writtenBytes, movedBytes, copyingBytes } = story.summary;
console.log(`\n\n${tokensPerSecond.toFixed(0)} tokens a second.`);
console.log(`${writtenBytes} cache bytes were written, ${movedBytes} moved; a runtime that copies would have moved ${copyingBytes}.`);
await lm.release();
