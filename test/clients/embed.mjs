// A program that uses transformers.js for embeddings of single texts and of batches, and for the scores of pairs. Prints one line of JSON.
// Usage: node embed.mjs <entry of transformers.js> <folder> <JSON of { encoders, decoders, rankers, texts, query }>
import { pathToFileURL } from "node:url";

const [entry, folder, given] = process.argv.slice(2);
const { env, pipeline, AutoTokenizer, AutoModelForSequenceClassification } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = folder;
const options = { dtype: "fp32", session_options: { intraOpNumThreads: 1 } };
const { encoders, decoders, rankers, texts, query } = JSON.parse(given);

const results = {};
for (const [name, pooling] of encoders) {
  const extract = await pipeline("feature-extraction", name, options);
  results[name] = (await extract(texts, { pooling, normalize: true })).tolist();
  await extract.dispose();
}
for (const name of decoders) {
  const extract = await pipeline("feature-extraction", name, options);
  results[name] = [];
  // One by one: its padding would stand in front.
  for (const text of texts)
    results[name].push((await extract(text, { pooling: "last_token", normalize: true })).tolist()[0]);
  await extract.dispose();
}
for (const name of rankers) {
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const model = await AutoModelForSequenceClassification.from_pretrained(name, options);
  const inputs = await tokenizer(Array(texts.length).fill(query), {
    text_pair: texts,
    padding: true,
    truncation: true,
  });
  const { logits } = await model(inputs);
  results[name] = logits.sigmoid().tolist().flat();
  await model.dispose();
}
console.log(JSON.stringify(results));
