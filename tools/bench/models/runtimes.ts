/** Who runs models of real size: insitu, and the peers that are installed, each by a script in a process of its own. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { checkout } from "../../checkout.js";
import type { FoundRuntimes, Setting } from "../load.js";
import type { MissingPeer } from "../peers.js";
import { DecoderProcess, type OpenedModel } from "./decoder-process.js";
import { DeviceMemory } from "./device-memory.js";

const peersFolder = join(checkout, "peers");

/** One who runs models. */
interface ModelRuntime {
  readonly name: string;
  /** "insitu", or the name of a peer. */
  readonly runtime: string;
  readonly script: string;
  /** True for one that reads GGUF files. */
  readonly readsGguf: boolean;
  /** insitu's option of that name, where it is not the default. */
  readonly activations?: "float";
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

/** insitu's own script: as it was built, or, where the program is one file, the one that was bundled beside it. */
function ownScript(program: readonly string[]): string {
  const bundled = join(dirname(program.at(-1) ?? ""), "insitu-process.mjs");
  return existsSync(bundled) ? bundled : join(checkout, "dist/tools/bench/models/insitu-process.js");
}

/** Everyone who takes part. */
export function modelRuntimes({ alone = false, backend, program = [] }: Setting): ModelRuntime[] {
  const insitu: ModelRuntime = {
    name: backend === undefined ? "insitu" : `insitu on ${backend}`,
    runtime: "insitu",
    script: ownScript(program),
    readsGguf: false,
  };
  // Products on a processor, where rounding decides the speed.
  const own =
    backend === undefined
      ? [insitu, { ...insitu, name: 'insitu, activations: "float"', activations: "float" as const }]
      : [insitu];
  if (alone) return own;
  const { versions } = findModelPeers();
  const others = peers
    .filter(({ name }) => name in versions)
    .map(({ name, on, readsGguf }) => ({
      name: `${name}, ${on[backend === "webgpu" ? 1 : 0]}`,
      runtime: name,
      script: join(peersFolder, "models", `${name}.mjs`),
      readsGguf,
    }));
  return [...own, ...others];
}

/** A runtime with one model: its process is started when it is first asked for, and anew by `restart`. */
export class RunningModel {
  readonly runtime: ModelRuntime;
  readonly #model: () => Promise<OpenedModel>;
  #decoder: DecoderProcess | undefined;
  #device = new DeviceMemory();

  constructor(runtime: ModelRuntime, model: () => Promise<OpenedModel>) {
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
    const { name, script, activations } = this.runtime;
    const model = { ...(await this.#model()), activations };
    const open = (): ReturnType<typeof DecoderProcess.open> => DecoderProcess.open(name, script, model);
    this.#device = new DeviceMemory();
    const { decoder, milliseconds } = model.gpu ? await this.#device.during(open) : await open();
    this.#decoder = decoder;
    return milliseconds;
  }

  /** Does some work with the process, and counts what it takes on the device. */
  onDevice<T>(work: () => Promise<T>): Promise<T> {
    return this.#device.during(work);
  }

  /** Bytes that the process takes on the device, as far as they were counted; undefined where nobody tells. */
  get deviceBytes(): number | undefined {
    return this.#device.bytes;
  }

  async stop(): Promise<void> {
    const decoder = this.#decoder;
    this.#decoder = undefined;
    await decoder?.stop();
  }
}
