/** What a file is that is no ONNX model and no JSON: told by its first bytes, with the way out. Reads nothing itself. */

/** Bytes that are looked at. */
const looked = 512;

const find =
  "insitu runs ONNX files: look for a folder onnx where the model comes from, or export it with Hugging Face's optimum";

/** Formats by how their files begin: a pattern over the first bytes, one character a byte, and · for those that are no text. */
const formats: readonly (readonly [begins: RegExp, sentence: string])[] = [
  [/^GGUF/, `is a GGUF file, which llama.cpp runs; ${find}`],
  [/^(?:GGML|ggjt|lmgg|tjgg)/, `is a GGML file, an old format of llama.cpp; ${find}`],
  [/^.{6}··\{\s*"/s, `is a safetensors file: weights without a graph; ${find}`],
  [
    /^version https:\/\/git-lfs\.github\.com\/spec\//,
    "is a git-LFS pointer, not the file itself: run git lfs pull where it was cloned, or download the file",
  ],
  [
    /^\s*<(?:!doctype|html|head|\?xml|script)/i,
    "is an HTML page: servers send one in place of a missing file, or for a login; check the URL",
  ],
  [
    /^\s*[[{]\s*["\]}[{]/,
    "is JSON: a model's settings or tokenizer; give the ONNX file, or the folder that holds both",
  ],
  [/^PK··/, `is a zip archive, as PyTorch saves weights; ${find}`],
  [/^\x80·/, `is a Python pickle, as PyTorch saved weights; ${find}`],
  [/^.{4}TFL3/s, `is a TensorFlow Lite model; ${find}`],
  [/^.{4}ORTM/s, "is in onnxruntime's own format: use the .onnx file that it was made from"],
];

/** A sentence about a file that begins with these bytes, to follow its name; undefined for what is not known. */
export function foreignFile(bytes: Uint8Array): string | undefined {
  const beginning = Array.from(bytes.subarray(0, looked), (byte) =>
    byte >= 32 || (byte >= 9 && byte <= 13) ? String.fromCharCode(byte) : "·",
  ).join("");
  return formats.find(([begins]) => begins.test(beginning.replace(/^\xef\xbb\xbf/, "")))?.[1];
}

/** True if bytes begin as a web page does. */
export const isWebPage = (bytes: Uint8Array): boolean => foreignFile(bytes)?.startsWith("is an HTML page") === true;

/** True if a text is spelled as models on the hub are named: `owner/name`. */
export const isHubSpelling = (text: string): boolean =>
  /^\w[\w.-]*\/\w[\w.-]*$/.test(text) && !text.toLowerCase().endsWith(".onnx");

/** True if a text is spelled as short names are: it may be a folder's name as well. */
export const isShortSpelling = (text: string): boolean =>
  /^[A-Za-z0-9][\w.-]*$/.test(text) && !/\.(onnx|json)$/i.test(text);

/** The URL of the folder that a model of the hub has there. */
export const hubFolderUrl = (name: string): string => `https://huggingface.co/${name}/resolve/main`;

/** The name on the hub that a URL of a page or a file there stands for. */
export function hubNameOf(url: string): string | undefined {
  return /^(?:https?:\/\/)?(?:www\.)?(?:huggingface\.co|hf\.co)\/(\w[\w.-]*\/\w[\w.-]*)/i.exec(url)?.[1];
}
