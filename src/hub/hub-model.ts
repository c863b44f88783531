/** A language model from the Hugging Face hub: the files that are needed of it, kept in a local folder. A complete folder needs no network. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { InsituError } from "../base/error.js";
import { downloadFile, type RemoteFile } from "./download-file.js";

/** How a model is fetched. */
export interface HubOptions {
  /** A branch, tag or commit; "main" where left out. */
  readonly revision?: string;
  /** Which ONNX file: "q4" is onnx/model_q4.onnx. */
  readonly variant?: string;
  /** Where models are kept: INSITU_CACHE, or .cache/insitu in the home folder. */
  readonly cache?: string;
  /** Where the hub is: HF_ENDPOINT, or the public one. */
  readonly hubUrl?: string;
  /** For models that are not public. */
  readonly accessToken?: string;
  readonly signal?: AbortSignal;
  /** Told about each file while it comes. */
  readonly onProgress?: (progress: { readonly file: string; readonly bytes: number; readonly size: number }) => void;
}

/** What is fetched beside the ONNX file, where it is there. */
const companions = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
];

/** The names of ONNX files in the order in which they are looked for. */
const variants = ["", "quantized", "q4", "q4f16", "int8", "uint8", "bnb4", "fp16"];

/** True if a text can only be a model's name on the hub: `owner/name`, with nothing at that path. */
export const isHubName = (text: string): boolean =>
  /^\w[\w.-]*\/\w[\w.-]*$/.test(text) && !text.toLowerCase().endsWith(".onnx") && !existsSync(text);

/** Fetches what is missing of a model; the folder that holds it. */
export async function fetchHubModel(name: string, options: HubOptions = {}): Promise<string> {
  const { revision = "main", variant } = options;
  const cache = options.cache ?? process.env["INSITU_CACHE"] ?? join(homedir(), ".cache", "insitu");
  const folder = join(cache, name.replace("/", "--"), encodeURIComponent(revision));
  const record = join(folder, `complete${variant === undefined ? "" : `-${variant}`}.json`);
  if (isComplete(folder, record)) return folder;
  const hubUrl = options.hubUrl ?? process.env["HF_ENDPOINT"] ?? "https://huggingface.co";
  const files = await listModel(name, revision, hubUrl, options);
  const wanted = choose(name, files, variant);
  const headers: Record<string, string> =
    options.accessToken === undefined ? {} : { Authorization: `Bearer ${options.accessToken}` };
  for (const path of wanted) {
    const target = join(folder, path);
    if (existsSync(target)) continue;
    const file = files.get(path)!;
    const onBytes = (bytes: number): void => options.onProgress?.({ file: path, bytes, size: file.size });
    await downloadFile(file, target, { headers, signal: options.signal, onBytes });
  }
  // Last of all: its presence says that everything it lists is there.
  writeFileSync(record, JSON.stringify(wanted));
  return folder;
}

function isComplete(folder: string, record: string): boolean {
  if (!existsSync(record)) return false;
  return (JSON.parse(readFileSync(record, "utf8")) as string[]).every((path) => existsSync(join(folder, path)));
}

async function listModel(
  name: string,
  revision: string,
  hubUrl: string,
  { accessToken }: HubOptions,
): Promise<Map<string, RemoteFile>> {
  const { listFiles } = await import("@huggingface/hub").catch((cause: unknown) => {
    throw new InsituError(
      "download",
      `"${name}" is no folder; to fetch it from the hub, install @huggingface/hub beside insitu`,
      { cause },
    );
  });
  const files = new Map<string, RemoteFile>();
  try {
    const access = accessToken === undefined ? {} : { accessToken };
    for await (const { type, path, size, oid, lfs } of listFiles({
      repo: name,
      revision,
      recursive: true,
      hubUrl,
      ...access,
    })) {
      // What is not a plain path below the folder is no business of ours.
      if (type !== "file" || path.split("/").some((part) => part === ".." || part === "") || path.includes("\\"))
        continue;
      const url = `${hubUrl}/${name}/resolve/${encodeURIComponent(revision)}/${path.split("/").map(encodeURIComponent).join("/")}`;
      const checksum =
        lfs === undefined ? { kind: "git" as const, value: oid ?? "" } : { kind: "sha256" as const, value: lfs.oid };
      files.set(path, { url, size: lfs?.size ?? size, checksum });
    }
  } catch (cause) {
    const status = cause instanceof Error && "statusCode" in cause ? cause.statusCode : undefined;
    throw new InsituError(
      "download",
      status === 404 || status === 401
        ? `"${name}" is neither a folder nor a model that the hub shows (${status})`
        : `"${name}" is no folder, and the hub cannot be asked for it: ${innermost(cause)}`,
      { cause },
    );
  }
  return files;
}

/** The paths that are needed: the ONNX file, its weight files, the tokenizer and the configuration. */
function choose(name: string, files: ReadonlyMap<string, RemoteFile>, variant: string | undefined): string[] {
  const model = (variant === undefined ? variants : [variant])
    .flatMap((kind) => ["onnx/", ""].map((folder) => `${folder}model${kind === "" ? "" : `_${kind}`}.onnx`))
    .find((path) => files.has(path));
  if (model === undefined) {
    const there = [...files.keys()].filter((path) => path.endsWith(".onnx"));
    throw new InsituError(
      "download",
      `"${name}" has no ONNX file of that kind; it has ${there.join(", ") || "none at all"}`,
    );
  }
  if (!files.has("tokenizer.json")) throw new InsituError("download", `"${name}" has no tokenizer.json`);
  const weights = [...files.keys()].filter((path) => path.startsWith(`${model}_data`) || path === `${model}.data`);
  return [...companions.filter((path) => files.has(path)), model, ...weights];
}

function innermost(cause: unknown): string {
  let inner = cause;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  return inner instanceof Error ? inner.message : String(inner);
}
