import type { InferenceSession } from "onnxruntime-common";

export interface MyOptions extends InferenceSession.SessionOptions {
  modelName: string;
}
type Provider = NonNullable<InferenceSession.SessionOptions["executionProviders"]>[number];
export function providers(wanted: InferenceSession.ExecutionProviderName): Provider[] {
  const webgpu: InferenceSession.WebGpuExecutionProviderOption = { name: "webgpu", preferredLayout: "NHWC" };
  const config: InferenceSession.ExecutionProviderConfig = wanted === "webgpu" ? webgpu : wanted;
  return [config, "wasm"];
}
export const pick = ({ modelName, ...rest }: MyOptions): InferenceSession.SessionOptions => ({
  ...rest,
  logId: modelName,
});
