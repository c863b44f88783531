import { Tensor } from "onnxruntime-common";

export async function read(tensor: Tensor): Promise<Tensor.DataType> {
  const location: Tensor.DataLocation = tensor.location;
  if (location === "gpu-buffer" || location === "texture" || location === "ml-tensor") return tensor.getData(true);
  if (tensor.location === "none") throw new Error("disposed");
  const flat: Tensor = tensor.reshape([tensor.size]);
  const data = flat.data;
  tensor.dispose();
  return data;
}
