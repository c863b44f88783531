import ort from "onnxruntime-node";

const session = await ort.InferenceSession.create("model.onnx");
const tensor: ort.Tensor = new ort.Tensor("float32", [1], [1]);
const results: ort.InferenceSession.ReturnType = await session.run({ x: tensor });
export const names: string[] = Object.keys(results);
export const backends = ort.listSupportedBackends().map(({ name }) => name);
