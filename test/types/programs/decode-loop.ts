import { InferenceSession, Tensor } from "onnxruntime-node";

/** Presents become the next pasts, as every program does it. */
export async function generate(session: InferenceSession, prompt: bigint[], count: number): Promise<bigint[]> {
  const ids = [...prompt];
  let cache: Record<string, Tensor> = {};
  for (const name of session.inputNames)
    if (name.startsWith("past_key_values.")) cache[name] = new Tensor("float32", new Float32Array(0), [1, 4, 0, 8]);
  let fed = prompt;
  for (let step = 0; step < count; step++) {
    const outputs = await session.run({
      input_ids: new Tensor("int64", BigInt64Array.from(fed), [1, fed.length]),
      attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), [1, ids.length]),
      ...cache,
    });
    cache = Object.fromEntries(
      Object.entries(outputs)
        .filter(([name]) => name.startsWith("present."))
        .map(([name, tensor]) => [name.replace("present.", "past_key_values."), tensor]),
    );
    const logits = outputs.logits.data as Float32Array;
    const vocabulary = outputs.logits.dims.at(-1) ?? 0;
    const row = logits.subarray(logits.length - vocabulary);
    const next = BigInt(row.indexOf(Math.max(...row)));
    ids.push(next);
    fed = [next];
  }
  return ids;
}
