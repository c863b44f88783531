// A program that uses transformers.js and knows nothing of what computes beneath it: for each decoder below a folder, the ways in which text
// is generated. Prints one line of JSON. Usage: node generate.mjs <entry of transformers.js> <folder> <names…>
import { pathToFileURL } from "node:url";

const [entry, folder, ...names] = process.argv.slice(2);
const { AutoModelForCausalLM, AutoTokenizer, env, pipeline, random, Tensor, TextStreamer } = await import(
  pathToFileURL(entry).href
);
env.allowRemoteModels = false;
env.localModelPath = folder;

const options = { dtype: "fp32", session_options: { intraOpNumThreads: 1 } };
const ids = (...rows) => new Tensor("int64", BigInt64Array.from(rows.flat(), BigInt), [rows.length, rows[0].length]);
const ones = (batch, count) => new Tensor("int64", new BigInt64Array(batch * count).fill(1n), [batch, count]);
const listed = (tensor) => tensor.tolist().map((row) => row.map(Number));

async function tryModel(name) {
  const model = await AutoModelForCausalLM.from_pretrained(name, options);
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  tokenizer.padding_side = "left";
  const prompt = "w5 w17 w3 w40 w8";
  const told = {};

  const generator = await pipeline("text-generation", name, options);
  const streamed = [];
  const streamer = new TextStreamer(generator.tokenizer, {
    skip_prompt: true,
    callback_function: (text) => streamed.push(text),
  });
  told.text = await generator(prompt, { max_new_tokens: 12, do_sample: false, streamer });
  told.streamed = streamed;
  await generator.dispose();

  const inputs = tokenizer(prompt);
  const greedy = { max_new_tokens: 16, do_sample: false };
  told.greedy = listed(await model.generate({ ...inputs, ...greedy }));
  random.seed(42);
  told.sampled = listed(
    await model.generate({ ...inputs, max_new_tokens: 16, do_sample: true, temperature: 0.8, top_k: 12 }),
  );
  told.beams = listed(await model.generate({ ...inputs, ...greedy, num_beams: 3 }));
  told.penalized = listed(
    await model.generate({ ...inputs, ...greedy, repetition_penalty: 1.3, no_repeat_ngram_size: 2 }),
  );

  // Texts of one length, and texts padded on the left.
  told.batch = listed(await model.generate({ ...tokenizer(["w1 w2 w3", "w9 w8 w7"], { padding: true }), ...greedy }));
  told.padded = listed(
    await model.generate({ ...tokenizer(["w1 w2 w3 w4 w5 w6", "w9 w8"], { padding: true }), ...greedy }),
  );

  // Caches that go from call to call: the second call has the whole text and goes on behind what the first one left.
  const first = await model.generate({ ...inputs, max_new_tokens: 6, do_sample: false, return_dict_in_generate: true });
  const whole = ids([...listed(first.sequences)[0], 7, 11]);
  const cached = () => ({
    input_ids: whole,
    attention_mask: ones(1, whole.dims[1]),
    past_key_values: first.past_key_values,
  });
  const second = await model.generate({
    ...cached(),
    max_new_tokens: 6,
    do_sample: false,
    return_dict_in_generate: true,
  });
  told.reused = listed(second.sequences);
  told.rows = second.past_key_values.get_seq_length();

  // Elements of caches and logits, as programs read them.
  const outputs = await model({ ...inputs });
  told.dims = Object.fromEntries(Object.entries(outputs).map(([output, { type, dims }]) => [output, [type, ...dims]]));
  told.sums = Object.entries(outputs).map(([, { data }]) => {
    let sum = 0;
    for (const each of data) sum += Math.abs(Number(each));
    return sum / data.length;
  });
  const presents = model.sessions.model.explain?.({ json: true }).presents;
  await model.dispose();
  return { told, presents };
}

const results = {};
for (const name of names) results[name] = await tryModel(name);
console.log(JSON.stringify(results));
