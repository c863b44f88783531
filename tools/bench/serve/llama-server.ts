/** llama.cpp beside us, through node-llama-cpp where the peers are installed: a server of the same weights in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { checkout } from "../../checkout.js";
import { writeEmbeddedGguf } from "./embedded-gguf.js";

const peers = join(checkout, "peers");

/** How it is installed where it is not there. */
export const howToInstallLlama = "npm --prefix peers ci";

/** Tokens of a prompt and its text together: as many as the embedded model's context holds. */
const contextSize = 512;

/** Its version; undefined where it is not installed. */
export function llamaVersion(): string | undefined {
  const place = join(peers, "node_modules", "node-llama-cpp", "package.json");
  if (!existsSync(place)) return undefined;
  return (JSON.parse(readFileSync(place, "utf8")) as { readonly version: string }).version;
}

/** Starts it on the embedded model with room for so many texts at a time; the files that it reads go with its process. */
export function startLlama(texts: number, threads: number = availableParallelism()): ChildProcess {
  const folder = mkdtempSync(join(tmpdir(), "insitu-bench-llama-"));
  const model = join(folder, "embedded.gguf");
  writeEmbeddedGguf(model);
  const child = start([model, texts, contextSize, threads], "inherit");
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  child.once("exit", () => {
    process.off("exit", remove);
    remove();
  });
  return child;
}

/** Starts it on a GPU with room for so many texts of so many tokens, all `layers` of the model there. What it complains of is piped. */
export const startLlamaOnGpu = (model: string, texts: number, context: number, layers: number): ChildProcess =>
  start([model, texts, context, availableParallelism(), layers], "pipe");

const start = (args: readonly (string | number)[], complaints: "inherit" | "pipe"): ChildProcess =>
  spawn(process.execPath, [join(peers, "serve", "node-llama-cpp.mjs"), ...args.map(String)], {
    stdio: ["ignore", "pipe", complaints],
  });
