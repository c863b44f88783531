// A program that uses transformers.js's encoder-decoders: text to text in the style of T5, sound to text in that of Whisper. Prints one line of
// JSON. Usage: node translate.mjs <entry of transformers.js> <folder>
import { pathToFileURL } from "node:url";

const [entry, folder] = process.argv.slice(2);
const { AutoTokenizer, env, pipeline, random, T5ForConditionalGeneration, Tensor, WhisperForConditionalGeneration } =
  await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = folder;

const options = { dtype: "fp32", session_options: { intraOpNumThreads: 1 } };
const listed = (tensor) => tensor.tolist().map((row) => row.map(Number));
const told = {};

const translate = await pipeline("text2text-generation", "t5", options);
told.text = await translate("w5 w17 w3 w40 w8", { max_new_tokens: 16 });
await translate.dispose();

const t5 = await T5ForConditionalGeneration.from_pretrained("t5", options);
const tokenizer = await AutoTokenizer.from_pretrained("t5");
const texts = ["w5 w17 w3 w40 w8", "w9 w8"];
told.batch = listed(await t5.generate({ ...tokenizer(texts, { padding: true }), max_new_tokens: 16 }));
random.seed(7);
const sampling = { max_new_tokens: 16, do_sample: true, top_k: 8 };
told.sampled = listed(await t5.generate({ ...tokenizer(texts[0]), ...sampling }));
const presents = [t5.sessions.decoder_model_merged.explain?.({ json: true }).presents];

const whisper = await WhisperForConditionalGeneration.from_pretrained("whisper", options);
const frames = Float32Array.from({ length: 8 * 60 }, (_, at) => Math.sin(at * 0.7) + Math.cos(at * 0.13));
told.heard = listed(await whisper.generate({ inputs: new Tensor("float32", frames, [1, 8, 60]), max_new_tokens: 20 }));
presents.push(whisper.sessions.decoder_model_merged.explain?.({ json: true }).presents);

console.log(JSON.stringify({ told, presents }));
