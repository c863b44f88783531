// A program that uses transformers.js for sentence embeddings. Prints one line of JSON.
// Usage: node encode.mjs <entry of transformers.js> <folder> <names…>
import { pathToFileURL } from "node:url";

const [entry, folder, ...names] = process.argv.slice(2);
const { env, pipeline } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = folder;

const results = {};
for (const name of names) {
  const extract = await pipeline("feature-extraction", name, {
    dtype: "fp32",
    session_options: { intraOpNumThreads: 1 },
  });
  const texts = ["w5 w17 w3 w40 w8 w2", "w9 w8", "w30 w31 w32 w33"];
  const whole = await extract(texts[0]);
  const pooled = await extract(texts, { pooling: "mean", normalize: true });
  const first = await extract(texts, { pooling: "cls" });
  results[name] = [whole, pooled, first].map((tensor) => ({ dims: tensor.dims, list: tensor.tolist().flat(Infinity) }));
  await extract.dispose();
}
console.log(JSON.stringify(results));
