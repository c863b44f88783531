// A program that uses transformers.js's text-generation and prints its texts as one line of JSON.
// Usage: node text.mjs <entry of transformers.js> <folder> <prompt> <names…>
import { pathToFileURL } from "node:url";

const [entry, folder, prompt, ...names] = process.argv.slice(2);
const { env, pipeline } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = folder;
const texts = {};
for (const name of names) {
  const generator = await pipeline("text-generation", name, { dtype: "fp32" });
  const [{ generated_text: text }] = await generator(prompt, { max_new_tokens: 12, do_sample: false });
  texts[name] = text;
  await generator.dispose();
}
console.log(JSON.stringify(texts));
