import { InferenceSession } from "onnxruntime-node";

const options: InferenceSession.SessionOptions = {
  executionProviders: [{ name: "cuda", deviceId: 0 }, { name: "cpu", useArena: true }, "cpu"],
  intraOpNumThreads: 2,
  interOpNumThreads: 1,
  freeDimensionOverrides: { batch: 1 },
  graphOptimizationLevel: "extended",
  enableCpuMemArena: true,
  enableMemPattern: true,
  executionMode: "sequential",
  optimizedModelFilePath: "out.onnx",
  enableProfiling: false,
  profileFilePrefix: "profile",
  logId: "me",
  logSeverityLevel: 3,
  logVerbosityLevel: 0,
  extra: { session: { set_denormal_as_zero: "1" } },
};
// Options are filled in one by one, too.
options.executionProviders = ["cpu"];
options.logSeverityLevel = 4;
options.externalData = [{ path: "weights.bin", data: new Uint8Array(4) }, "more.bin"];
export const session = InferenceSession.create("model.onnx", options);
