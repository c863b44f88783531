import { InferenceSession, type OnnxValue, Tensor } from "onnxruntime-common";

export async function infer(session: InferenceSession, ids: number[]): Promise<InferenceSession.OnnxValueMapType> {
  const feeds: Record<string, Tensor> = {};
  for (const name of session.inputNames) feeds[name] = new Tensor("int64", ids.map(BigInt), [1, ids.length]);
  const given: InferenceSession.FeedsType = feeds;
  const options: InferenceSession.RunOptions = { logSeverityLevel: 0 };
  options.tag = "a run";
  const results: InferenceSession.ReturnType = await session.run(given, options);
  const value: OnnxValue = results[session.outputNames[0]];
  console.log(value.dims, value.type);
  return results;
}
