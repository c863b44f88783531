/** The names under which exporters put a model's ONNX files into a folder or on the hub. Looks at no folder. */

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
export const modelPaths = (variant?: string): string[] => pathsOf("model", variant);

/** The paths of a decoder whose embedding is a file of its own, and of that file, which may be of another variant. */
export const splitPaths = (variant?: string): { readonly decoder: string[]; readonly embedding: string[] } => ({
  decoder: pathsOf("decoder_model_merged", variant),
  embedding: [...(variant === undefined ? [] : pathsOf("embed_tokens", variant)), ...pathsOf("embed_tokens")],
});

/** The paths of a head that guesses for the model. */
export const headPaths = (variant?: string): string[] => [
  ...(variant === undefined ? [] : pathsOf("mtp", variant)),
  ...pathsOf("mtp"),
  "mtp/model.onnx",
  ...pathsOf("eagle3"),
];

function pathsOf(stem: string, variant?: string): string[] {
  const files = (variant === undefined ? variants : [variant]).map((each) => modelFileOf(each).replace("model", stem));
  return files.flatMap((file) => [`onnx/${file}`, file]);
}

/** What onnxruntime-genai keeps beside a model: where its files are and how they are run. */
export const genaiConfigName = "genai_config.json";

/** What a folder's name may say of what its model was made for, the first choice first: this package computes on any machine's processors. */
const kinds = [/cpu/i, /web-?gpu/i, /gpu|cuda/i];

/** The same of how it is quantised. */
const precisions = [/int4|q4/i, /int8|q8/i, /fp16/i];

/**
 * Of several folders below one, each with a model, the one to take: the one that has `variant` as its path or as a part of it, or the one for
 * processors with the smallest weights. Undefined where none is of that variant.
 */
export function preferredFolder(folders: readonly string[], variant?: string): string | undefined {
  const rankIn = (list: readonly RegExp[], path: string): number => {
    const at = list.findIndex((pattern) => pattern.test(path));
    return at < 0 ? list.length : at;
  };
  const rank = (path: string): number => rankIn(kinds, path) * (precisions.length + 1) + rankIn(precisions, path);
  return folders
    .filter((path) => variant === undefined || path === variant || path.split("/").includes(variant))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .at(0);
}
