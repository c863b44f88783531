// A decode loop on a state, the same in Node and in the page: a prefill, then greedy tokens one by one.

/** Decodes `count` tokens on the generated decoder. `model` is a path, a URL or bytes. */
export async function decode({ InferenceSession, Tensor }, model, options, count = 40) {
  const session = await InferenceSession.create(model, options);
  const state = session.createState({ dims: { batch: 1, capacity: 64 } });
  const integers = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const run = async (ids, from) => {
    const position_ids = integers(ids.map((_, at) => from + at));
    const { logits } = await session.run({ input_ids: integers(ids), position_ids }, { state });
    return logits.data.slice(-logits.dims.at(-1));
  };
  const tokens = [3, 14, 15, 92, 65];
  let logits = await run(tokens, 0);
  while (tokens.length < 5 + count) {
    tokens.push(logits.indexOf(Math.max(...logits)));
    logits = await run(tokens.slice(-1), tokens.length - 1);
  }
  const memories = session.explain().match(/memory \d+: \d+ bytes of weights/g)?.length ?? 1;
  const result = {
    memories,
    tokens,
    logits: [...logits],
    lengths: [...state.lengths],
    movedBytes: state.statistics.movedBytes,
  };
  await session.release();
  return result;
}
