// The loop underneath: a session, a state that owns the caches, and one run a token. Nothing of the caches moves.
import { CausalLM, InferenceSession, Tensor } from "insitu";

const lm = await CausalLM.load(); // for its tokenizer alone
const model = new URL("../models/embedded/onnx/model.onnx", import.meta.url);
const session = await InferenceSession.create(model.href, { inPlace: "require" });
const state = session.createState({ dims: { batch: 1, capacity: 64 } });

const int64 = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
const tokens = lm.tokenizer.encode("There was once a");
for (let read = 0; tokens.length < 24; ) {
  const part = tokens.slice(read); // the whole prompt, then one token a run
  const { logits } = await session.run({ input_ids: int64(part), position_ids: int64(part.map((_, i) => read + i)) }, { state });
  read = tokens.length;
  const last = logits.data.subarray(-logits.dims[2]);
  tokens.push(last.indexOf(Math.max(...last)));
}
console.log(lm.tokenizer.decode(tokens));
console.log(`rows valid: ${state.lengths}, bytes moved: ${state.statistics.movedBytes}, bytes of caches: ${state.byteLength}`);
console.log(session.explain().split("\n").filter((line) => line.includes("in place")).slice(0, 2).join("\n"));
await session.release();
await lm.release();
