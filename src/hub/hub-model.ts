/** A language model from the Hugging Face hub: the files that are needed of it, kept in a local folder. A complete folder needs no network. */
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { InsituError } from "../base/error.js";
import { modelPaths } from "../base/model-files.js";
import { downloadFile, notWritten, type RemoteFile } from "./download-file.js";

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
  /** For models that are not public: HF_TOKEN where left out. */
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
  const token = tokenOf(options);
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  for (const path of wanted) {
    const target = join(folder, path);
    if (existsSync(target)) continue;
    const file = files.get(path)!;
    const onBytes = (bytes: number): void => options.onProgress?.({ file: path, bytes, size: file.size });
    await downloadFile(file, target, { headers, signal: options.signal, onBytes });
  }
  // Last of all: its presence says that everything it lists is there.
  await writeFile(record, JSON.stringify(wanted)).catch((error: unknown) => notWritten(record, error));
  return folder;
}

const tokenOf = ({ accessToken }: HubOptions): string | undefined =>
  accessToken ?? (process.env["HF_TOKEN"] || undefined);

function isComplete(folder: string, record: string): boolean {
  if (!existsSync(record)) return false;
  try {
    return (JSON.parse(readFileSync(record, "utf8")) as string[]).every((path) => existsSync(join(folder, path)));
  } catch {
    return false; // a record that cannot be read says nothing: everything is looked at again
  }
}

async function listModel(
  name: string,
  revision: string,
  hubUrl: string,
  options: HubOptions,
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
    const accessToken = tokenOf(options);
    const access = accessToken === undefined ? {} : { accessToken };
    for await (const { type, path, size, oid, lfs } of listFiles({
      repo: name,
      revision,
      recursive: true,
      hubUrl,
      fetch: (input, init) => fetch(input, { ...init, signal: options.signal ?? null }),
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
    options.signal?.throwIfAborted();
    const status = cause instanceof Error && "statusCode" in cause ? cause.statusCode : undefined;
    const which = revision === "main" ? `"${name}"` : `"${name}" at ${revision}`;
    throw new InsituError("download", refusalText(which, status, cause), { cause });
  }
  return files;
}

function refusalText(which: string, status: unknown, cause: unknown): string {
  if (status === 404) return `${which} is neither a folder nor a model that the hub knows (404)`;
  if (status === 401 || status === 403)
    return `${which} is no folder, and the hub shows no such model without leave (${status}): check the name, or set HF_TOKEN to a token that may read it`;
  return `${which} is no folder, and the hub cannot be asked for it: ${innermost(cause)}`;
}

/** The paths that are needed: the ONNX file, its weight files, the tokenizer and the configuration. */
function choose(name: string, files: ReadonlyMap<string, RemoteFile>, variant: string | undefined): string[] {
  const model = modelPaths(variant).find((path) => files.has(path));
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
