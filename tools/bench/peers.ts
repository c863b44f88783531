/**
 * The other runtimes, where they are installed: found at run time below peers/ or in the current folder, never a dependency.
 * Declares only what benchmarks use of onnxruntime's interface.
 */
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { checkout } from "../checkout.js";
import { InsituError } from "#insitu/base/error.js";

/** A tensor of onnxruntime. */
export interface OrtTensor {
  readonly data: ArrayBufferView;
  readonly dims: readonly number[];
}

/** Tensors of onnxruntime by name. */
export type OrtTensors = Readonly<Record<string, OrtTensor>>;

/** The outputs to fetch by name: into a tensor, or into a fresh one. */
export type OrtFetches = Readonly<Record<string, OrtTensor | null>>;

/** A session of onnxruntime. */
export interface OrtSession {
  /** All outputs, or those of `fetches`. */
  run(feeds: OrtTensors, fetches?: OrtFetches): Promise<OrtTensors>;
  endProfiling(): void;
  release(): Promise<void>;
}

type RunOptions = Readonly<Record<string, unknown>>;

/** A session as onnxruntime's module has it: options may stand in the place of fetches. */
interface OrtModuleSession extends Omit<OrtSession, "run"> {
  run(feeds: OrtTensors, fetches: OrtFetches | RunOptions, options?: RunOptions): Promise<OrtTensors>;
}

/** onnxruntime-node's or onnxruntime-web's module. */
interface OrtModule {
  readonly InferenceSession: {
    create(model: Uint8Array, options?: Readonly<Record<string, unknown>>): Promise<OrtModuleSession>;
  };
  readonly Tensor: new (type: string, data: ArrayBufferView, dims: readonly number[]) => OrtTensor;
  readonly env: {
    readonly versions: Readonly<Record<string, string | undefined>>;
    logLevel?: string;
    readonly wasm: { numThreads?: number | undefined };
  };
}

/** An installed runtime. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** True if its profiler writes files, so that the time of its kernels can be told. */
  readonly profiles: boolean;
  tensor(type: string, data: ArrayBufferView, dims: readonly number[]): OrtTensor;
  session(model: Uint8Array, options?: Readonly<Record<string, unknown>>): Promise<OrtSession>;
}

/** A runtime that is not there, and what installs it. */
export interface MissingPeer {
  readonly name: string;
  readonly install: string;
}

const install = "npm --prefix peers ci";

/** The threads that the machine has: what insitu takes by default. */
export const machineThreads: number = availableParallelism();

/** The module of a package, looked for below `folders` in turn. */
function load(name: string, folders: readonly string[]): OrtModule | undefined {
  for (const folder of folders) {
    const require = createRequire(join(folder, "package.json"));
    let path: string;
    try {
      path = require.resolve(name);
    } catch {
      continue;
    }
    try {
      return require(path) as OrtModule;
    } catch (cause) {
      throw new InsituError("invalid-argument", `${name} at ${path} does not load; ${install} installs it anew`, {
        cause,
      });
    }
  }
  return undefined;
}

/** Finds the runtimes to compare with. */
export function findPeers(
  folders: readonly string[] = [join(checkout, "peers"), process.cwd()],
  threads: number = machineThreads,
): {
  readonly peers: readonly Peer[];
  readonly missing: readonly MissingPeer[];
} {
  const peers: Peer[] = [];
  const missing: MissingPeer[] = [];
  for (const [name, key, provider] of [
    ["onnxruntime-node", "node", "cpu"],
    ["onnxruntime-web", "web", "wasm"],
  ] as const) {
    const ort = load(name, folders);
    if (ort === undefined) {
      missing.push({ name, install });
      continue;
    }
    ort.env.logLevel = "error";
    if (key === "web") ort.env.wasm.numThreads = threads;
    peers.push({
      name,
      version: ort.env.versions[key] ?? ort.env.versions["common"] ?? "unknown",
      profiles: key === "node",
      tensor: (type, data, dims) => new ort.Tensor(type, data, dims),
      // Both packages register with one onnxruntime-common: without a provider's name, either would run on the native one.
      session: (model, options) =>
        openSession(ort, model, { executionProviders: [provider], intraOpNumThreads: threads, ...options }),
    });
  }
  return { peers, missing };
}

/** Errors and nothing less: a benchmark has its own output. */
const quiet = { logSeverityLevel: 3 } as const;

/** A session that spins between runs steals a core from whoever runs next. */
const sessionOptions: RunOptions = {
  ...quiet,
  extra: { session: { intra_op: { allow_spinning: "0" } } },
};

async function openSession(ort: OrtModule, model: Uint8Array, options: RunOptions): Promise<OrtSession> {
  const session = await ort.InferenceSession.create(model, { ...sessionOptions, ...options });
  return {
    run: (feeds, fetches) => (fetches === undefined ? session.run(feeds, quiet) : session.run(feeds, fetches, quiet)),
    endProfiling: () => session.endProfiling(),
    release: () => session.release(),
  };
}
