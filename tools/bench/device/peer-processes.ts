/**
 * The other runtimes on a device, where they are installed: each in a process of its own, which runs a script of peers/device and answers
 * what a decoder is asked. A peer that fails ends its own process and nobody else's.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { checkout } from "../../checkout.js";
import type { FoundRuntimes } from "../load.js";
import { gpuLimitMs, PeerProcess } from "../peer-process.js";
import type { MissingPeer } from "../peers.js";
import type { DecoderEntry, DeviceDecoder } from "./decoder.js";
import type { ModelFolder } from "./model-files.js";

/** What a peer is told when it is started. */
interface PeerModel {
  readonly files: () => ModelFolder;
  /** Writes the model as llama.cpp reads it; the path. */
  readonly gguf: () => string;
  /** What the script needs to know of the model, and whether a program plays the GPU. */
  readonly told: () => Promise<Readonly<Record<string, unknown>> & { readonly software: boolean }>;
}

/** A runtime that is there. */
interface DevicePeer {
  readonly name: string;
  readonly version: string;
  entry(model: PeerModel): DecoderEntry;
}

interface KnownPeer {
  readonly name: string;
  readonly does: string;
  readonly install: string;
  readonly readsGguf?: boolean;
  /** What else must be there. */
  readonly needs?: () => boolean;
}

const peersFolder = join(checkout, "peers");

const chromiumNames = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

function hasChromium(): boolean {
  if (folderOf("playwright-core", checkout) === undefined) return false;
  const given = process.env["CHROMIUM"];
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin"];
  const places = folders.flatMap((folder) => chromiumNames.map((name) => join(folder, name)));
  return given === undefined ? places.some((place) => existsSync(place)) : existsSync(given);
}

const known: readonly KnownPeer[] = [
  {
    name: "onnxruntime-node",
    does: "WebGPU provider, caches in GPU buffers",
    install: "npm --prefix peers ci",
  },
  {
    name: "onnxruntime-web",
    does: "WebGPU in Chromium, caches in GPU buffers",
    install: "npm --prefix peers ci, with playwright-core and a Chromium (Debian: apt-get install chromium)",
    needs: hasChromium,
  },
  {
    name: "node-llama-cpp",
    does: "llama.cpp on Vulkan",
    install: "npm --prefix peers ci",
    readsGguf: true,
  },
];

/** The folder of a package that can be loaded from `from`. */
function folderOf(name: string, from: string): string | undefined {
  const places = createRequire(join(from, "package.json")).resolve.paths(name) ?? [];
  return places.map((place) => join(place, name)).find((place) => existsSync(join(place, "package.json")));
}

/** Finds the runtimes to compare with. */
export function findDevicePeers(
  folder: string = peersFolder,
): FoundRuntimes & { readonly peers: readonly DevicePeer[] } {
  const peers: DevicePeer[] = [];
  const missing: MissingPeer[] = [];
  for (const each of known) {
    const { name, install, needs = () => true } = each;
    const place = folderOf(name, folder);
    if (place === undefined || !needs()) {
      missing.push({ name, install });
      continue;
    }
    const { version } = JSON.parse(readFileSync(join(place, "package.json"), "utf8")) as { version: string };
    peers.push({ name, version, entry: (model) => entryOf(each, model, join(folder, "device", `${name}.mjs`)) });
  }
  return { peers, missing, versions: Object.fromEntries(peers.map(({ name, version }) => [name, version])) };
}

const entryOf = ({ name, does, readsGguf = false }: KnownPeer, model: PeerModel, script: string): DecoderEntry => ({
  name: `${name}, ${does}`,
  runtime: name,
  async open() {
    const process = new PeerProcess(name, script);
    const told = await model.told();
    const limit = told.software ? undefined : gpuLimitMs;
    try {
      const paths = readsGguf ? { gguf: model.gguf() } : model.files();
      await process.ask("open", [{ ...paths, ...told }], limit);
    } catch (error) {
      await process.end();
      throw error;
    }
    return decoderIn(process, limit);
  },
});

function decoderIn(process: PeerProcess, limit: number | undefined): DeviceDecoder {
  return {
    decode: async (...args) => (await process.ask("decode", args, limit)) as number,
    prefill: async (...args) => (await process.ask("prefill", args, limit)) as number,
    next: async (...args) => (await process.ask("next", args, limit)) as number[],
    stop: async () => {
      await process.ask("stop", [], limit).catch(() => undefined);
      await process.end();
    },
  };
}
