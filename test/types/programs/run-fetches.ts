import { InferenceSession, Tensor } from "onnxruntime-common";

export async function all(session: InferenceSession, feeds: InferenceSession.FeedsType): Promise<void> {
  await session.run(feeds, ["y"]);
  await session.run(feeds, { y: null });
  const target = new Tensor(new Float32Array(4), [2, 2]);
  await session.run(feeds, { y: target }, { tag: "t", terminate: false, extra: { memory: {} } });
  const fetches: InferenceSession.FetchesType = Math.random() > 0.5 ? ["y"] : { y: target, z: null };
  const results = await session.run(feeds, fetches, {});
  for (const [name, tensor] of Object.entries(results)) console.log(name, tensor.size);
}
