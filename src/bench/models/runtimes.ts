/** Who runs models of real size: insitu, and the peers that are installed, each by a script in a process of its own. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { FoundRuntimes, Setting } from "../load.js";
import type { MissingPeer } from "../peers.js";
import { DecoderProcess, type OpenedModel } from "./decoder-process.js";

const packageRoot = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const peersFolder = join(packageRoot, "peers");

/** One who runs models. */
interface ModelRuntime {
  readonly name: string;
  /** "insitu", or the name of a peer. */
  readonly runtime: string;
  readonly script: string;
  /** True for one that reads GGUF files. */
  readonly readsGguf: boolean;
}

const peers = [
  { name: "onnxruntime-node", on: ["past fed, present fetched", "WebGPU, caches in GPU buffers"], readsGguf: false },
  { name: "node-llama-cpp", on: ["llama.cpp, Q4_0", "llama.cpp on Vulkan, Q4_0"], readsGguf: true },
] as const;

/** The version of a package that can be loaded from the peers' folder. */
function versionOf(name: string): string | undefined {
  const places = createRequire(join(peersFolder, "package.json")).resolve.paths(name) ?? [];
  const file = places.map((place) => join(place, name, "package.json")).find((path) => existsSync(path));
  return file === undefined ? undefined : (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** The peers that are installed. */
export function findModelPeers(): FoundRuntimes {
  const versions: Record<string, string> = {};
  const missing: MissingPeer[] = [];
  for (const { name } of peers) {
    const version = versionOf(name);
    if (version === undefined) missing.push({ name, install: "npm --prefix peers ci" });
    else versions[name] = version;
  }
  return { versions, missing };
}

/** Everyone who takes part. */
export function modelRuntimes({ alone = false, backend }: Setting): ModelRuntime[] {
  const insitu: ModelRuntime = {
    name: backend === undefined ? "insitu" : `insitu on ${backend}`,
    runtime: "insitu",
    script: join(packageRoot, "dist/bench/models/insitu-process.js"),
    readsGguf: false,
  };
  if (alone) return [insitu];
  const { versions } = findModelPeers();
  const others = peers
    .filter(({ name }) => name in versions)
    .map(({ name, on, readsGguf }) => ({
      name: `${name}, ${on[backend === "webgpu" ? 1 : 0]}`,
      runtime: name,
      script: join(peersFolder, "models", `${name}.mjs`),
      readsGguf,
    }));
  return [insitu, ...others];
}

/** A runtime with one model: its process is started when it is first asked for, and anew by `restart`. */
export class RunningModel {
  readonly runtime: ModelRuntime;
  readonly #model: () => OpenedModel;
  #decoder: DecoderProcess | undefined;

  constructor(runtime: ModelRuntime, model: () => OpenedModel) {
    this.runtime = runtime;
    this.#model = model;
  }

  async get(): Promise<DecoderProcess> {
    if (this.#decoder === undefined) await this.restart();
    return this.#decoder!;
  }

  /** Opens the model in a new process; the milliseconds that it took. */
  async restart(): Promise<number> {
    await this.stop();
    const { name, script } = this.runtime;
    const { decoder, milliseconds } = await DecoderProcess.open(name, script, this.#model());
    this.#decoder = decoder;
    return milliseconds;
  }

  async stop(): Promise<void> {
    const decoder = this.#decoder;
    this.#decoder = undefined;
    await decoder?.stop();
  }
}
