// How well a model knows tales that it was not taught: `node training/held-out.mjs MODEL_FOLDER HELD_OUT.json`.
// HELD_OUT.json is written by train.py: lines, with null where a tale ends. Prints nats a token and bits a byte over all whole windows
// of the model's context. Needs a build.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CausalLM, InferenceSession, Tensor } from "../dist/index.node.js";

const [folder, heldOut] = process.argv.slice(2);
if (heldOut === undefined) throw new Error("usage: node training/held-out.mjs MODEL_FOLDER HELD_OUT.json");
const lm = await CausalLM.load(folder);
const session = await InferenceSession.create(join(folder, "onnx/model.onnx"));
const lines = JSON.parse(readFileSync(heldOut, "utf8"));
const ids = [0];
for (const line of lines) {
  if (line !== null) ids.push(...lm.tokenizer.encode(`${line}\n`));
  else if (ids.at(-1) !== 0) ids.push(0);
}
const window = lm.config.max_position_embeddings ?? 512;
const count = Math.floor((ids.length - 1) / window);
let total = 0;
for (let row = 0; row < count; row++) {
  const tokens = ids.slice(row * window, (row + 1) * window);
  const { logits } = await session.run(
    {
      input_ids: new Tensor("int64", BigInt64Array.from(tokens, BigInt), [1, window]),
      position_ids: new Tensor("int64", BigInt64Array.from(tokens, (_, i) => BigInt(i)), [1, window]),
    },
    { state: session.createState({ dims: { batch: 1, capacity: window } }) },
  );
  const vocabulary = logits.dims[2];
  for (let i = 0; i < window; i++) {
    const scores = logits.data.subarray(i * vocabulary, (i + 1) * vocabulary);
    const top = scores.reduce((a, b) => Math.max(a, b));
    total += top + Math.log(scores.reduce((sum, x) => sum + Math.exp(x - top), 0)) - scores[ids[row * window + i + 1]];
  }
  if (process.stderr.isTTY) process.stderr.write(`\r${row + 1} of ${count} windows`);
}
const loss = total / (count * window);
const bytes = lines.reduce((sum, line) => sum + (line === null ? 0 : Buffer.byteLength(line) + 1), 0);
console.log(`${loss.toFixed(4)} nats a token, ${((loss / Math.LN2) * (ids.length / bytes)).toFixed(4)} bits a byte, ${count} windows of ${window}`);
await session.release();
await lm.release();
