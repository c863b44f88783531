/** The names under which exporters put a model's ONNX file into a folder or on the hub. Looks at no folder. */

/** The variants that exporters write beside model.onnx, in the order in which they are looked for. */
const variants = ["", "quantized", "q4", "q4f16", "int8", "uint8", "bnb4", "fp16"];

/** What others call some of them. */
const otherNames: Readonly<Record<string, string>> = { fp32: "", q8: "quantized" };

/** The file of a variant: `model_q4.onnx` for "q4", `model.onnx` for "" and "fp32", `model_quantized.onnx` for "q8". */
export function modelFileOf(variant: string): string {
  const name = otherNames[variant] ?? variant;
  return name === "" ? "model.onnx" : `model_${name}.onnx`;
}

/** The paths below a folder where the model may be, the first choice first; only those of one variant where one is named. */
export const modelPaths = (variant?: string): string[] =>
  (variant === undefined ? variants : [variant]).flatMap((each) => [`onnx/${modelFileOf(each)}`, modelFileOf(each)]);
