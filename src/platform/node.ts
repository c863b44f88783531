/** Node's file system as insitu's platform. Weight files are opened only inside the model's folder, as regular files. */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { type FileHandle, open, readdir, realpath, stat } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { availableParallelism, totalmem } from "node:os";
import { setFlagsFromString } from "node:v8";
import { Worker } from "node:worker_threads";
import { InsituError } from "../base/error.js";
import { hubNameOf } from "../base/foreign-file.js";
import { modelPaths } from "../base/model-files.js";
import type { FolderPlatform, LastingFile, ReadableFile, WorkerHandle } from "../base/platform.js";
import { readyMessage } from "../backends/wasm/control.js";
import { awaitCalmly } from "./calm-polling.js";
import { locationSegments } from "./location.js";

/** Node's read takes fewer than 2 GiB at a time. */
const mostAtOnce = 2 ** 30;

class NodeFile implements ReadableFile {
  readonly isNear = true;
  readonly size: number;
  readonly identity: string;
  readonly version: string;
  readonly #handle: FileHandle;
  readonly #path: string;

  constructor(handle: FileHandle, path: string, stats: BigIntStats) {
    this.#handle = handle;
    this.#path = path;
    this.size = Number(stats.size);
    this.identity = `${stats.dev}:${stats.ino}`;
    this.version = versionOf(stats);
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    for (let at = 0; at < target.length;) {
      const length = Math.min(target.length - at, mostAtOnce);
      const { bytesRead } = await this.#handle.read(target, at, length, offset + at);
      if (bytesRead === 0)
        throw new Error(`${this.#path} ended after ${offset + at} bytes, ${offset + target.length} were asked for`);
      at += bytesRead;
    }
  }

  lasting(): LastingFile {
    return new LastingNodeFile(this.#path, this.version);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** What tells a file and its contents from all others. */
const versionOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string =>
  `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;

/** What a file that is open has as long as nobody writes to it, also where its name is taken away or another file gets it. */
const contentsOf = (descriptor: number): string => {
  const { size, mtimeNs } = fstatSync(descriptor, { bigint: true });
  return `${size}:${mtimeNs}`;
};

class LastingNodeFile implements LastingFile {
  readonly #path: string;
  readonly #contents: string;
  readonly #descriptor: number;

  constructor(path: string, version: string) {
    this.#path = path;
    this.#descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    this.#contents = contentsOf(this.#descriptor);
    if (versionOf(fstatSync(this.#descriptor, { bigint: true })) === version) return;
    this.close();
    throw new InsituError("external-data", `${path} changed while it was read`);
  }

  readNow(offset: number, target: Uint8Array): void {
    if (contentsOf(this.#descriptor) !== this.#contents)
      throw new InsituError(
        "external-data",
        `${this.#path}, which rows of weights are read from, has changed since the model was loaded; load the model again`,
      );
    for (let at = 0; at < target.length;) {
      const bytes = readSync(this.#descriptor, target, at, Math.min(target.length - at, mostAtOnce), offset + at);
      if (bytes === 0)
        throw new Error(`${this.#path} ended after ${offset + at} bytes, ${offset + target.length} were asked for`);
      at += bytes;
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** A path as the file system takes it: from a path or a file: URL. */
const toPath = (path: string): string => (/^file:/i.test(path) ? fileURLToPath(path) : path);

const inside = (path: string, folder: string): boolean => path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

const reservedOnWindows = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|[. ]$|:/i;

async function openBeside(modelPath: string, location: string): Promise<ReadableFile> {
  const segments = locationSegments(location);
  if (process.platform === "win32" && segments.some((segment) => reservedOnWindows.test(segment))) {
    throw new InsituError(
      "external-data",
      `location ${JSON.stringify(location)} means a device or a stream on Windows`,
    );
  }
  const model = resolve(toPath(modelPath));
  // The model may itself be a link into a store; its weights then lie beside the link or beside the model in the store.
  const folders = [await realpath(dirname(model)), dirname(await realpath(model))];
  const real = await realpath(join(dirname(model), ...segments));
  if (!folders.some((folder) => inside(real, folder))) {
    throw new InsituError(
      "external-data",
      `location ${JSON.stringify(location)} leads outside the model's folder, to ${real}`,
    );
  }
  const before = await stat(real, { bigint: true });
  if (!before.isFile())
    throw new InsituError("external-data", `location ${JSON.stringify(location)} is not a regular file`);
  if (before.nlink > 1n) {
    throw new InsituError(
      "external-data",
      `location ${JSON.stringify(location)} is a hard link to a file that may belong elsewhere: copy it, or pass it in externalData`,
    );
  }
  const handle = await open(real, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    // What was opened must still be what was checked.
    const after = await handle.stat({ bigint: true });
    if (
      after.ino !== before.ino ||
      after.dev !== before.dev ||
      after.nlink > 1n ||
      !after.isFile() ||
      (await realpath(real)) !== real
    ) {
      throw new InsituError("external-data", `location ${JSON.stringify(location)} changed while it was opened`);
    }
    return new NodeFile(handle, real, after);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** What is at a path; undefined where nothing is, or where it is none that this machine has. */
async function found(path: string): Promise<Stats | undefined> {
  try {
    return await stat(toPath(path));
  } catch {
    return undefined;
  }
}

async function kindOf(path: string): Promise<"file" | "folder" | undefined> {
  const there = await found(path);
  return there && (there.isDirectory() ? "folder" : "file");
}

async function foldersIn(path: string): Promise<readonly string[]> {
  const entries = await readdir(toPath(path), { withFileTypes: true }).catch(() => []);
  return entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])).sort();
}

/** Why there is no model at a path, and where there may be one. */
async function whyNot(path: string, cause: unknown): Promise<string> {
  const name = hubNameOf(path);
  if (name !== undefined) return `it is a URL of the hub: CausalLM.load and insitu generate take the name, ${name}`;
  if (/^https?:/i.test(path)) return "it is a URL, and in Node models are files: download it first";
  if ((await kindOf(path)) === "folder") {
    const inside = modelPaths().map((each) => join(toPath(path), each));
    const kinds = await Promise.all(inside.map(kindOf));
    const model = inside.find((_, at) => kinds[at] === "file");
    return model === undefined
      ? "it is a folder, and holds no model.onnx: give the ONNX file"
      : `it is a folder: give the ONNX file in it, ${model}`;
  }
  if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR"))
    return "there is no such file";
  return cause instanceof Error ? cause.message : String(cause);
}

async function openModel(path: string): Promise<ReadableFile> {
  let handle: FileHandle | undefined;
  try {
    const place = toPath(path);
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    handle = await open(place, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stats = await handle.stat({ bigint: true });
    if (!stats.isFile()) throw new Error("not a regular file");
    return new NodeFile(handle, place, stats);
  } catch (cause) {
    await handle?.close();
    throw new InsituError("invalid-argument", `${path} cannot be opened: ${await whyNot(path, cause)}`, { cause });
  }
}

/** How often a worker that is starting is looked after, in milliseconds. */
const lookEvery = 100;

/** Looks without any sign of life after which a worker is given up, and looks in all without it being ready. */
const mostQuiet = 20;
const mostLooks = 600;

/** Milliseconds of processor time between two looks that are a sign of life: a thread that is starting uses them. */
const leastWork = 1;

/**
 * Calls `fail` when nothing has happened for two seconds in a process whose worker is to get ready. Returns what ends the watch. Looks that come
 * late do not count: the machine gives this process next to nothing, and so the worker too.
 */
function watchStart(fail: (reason: string) => void): () => void {
  let [quiet, looks, before, last] = [0, 0, process.cpuUsage(), performance.now()];
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(before);
    const late = performance.now() - last > 1.5 * lookEvery;
    [before, last] = [process.cpuUsage(), performance.now()];
    if (!late) quiet = (user + system) / 1000 < leastWork ? quiet + 1 : 0;
    if (quiet < mostQuiet && ++looks < mostLooks) return;
    fail(`it gave no answer in ${((quiet < mostQuiet ? looks : mostQuiet) * lookEvery) / 1000} s`);
  }, lookEvery);
  return () => clearInterval(timer);
}

/** Starts a kernel worker; once it is ready it does not keep the process alive. Rejects, never hangs, where it ends or says nothing. */
function startKernelWorker(start: object): Promise<WorkerHandle> {
  // A bundle of another format than ES modules has no import.meta.url.
  if (import.meta.url === undefined)
    return Promise.reject(new Error("a bundle that is no ES module cannot tell where their script lies"));
  return new Promise((resolve, reject) => {
    // Without execArgv: [] a worker inherits flags that it may not take.
    const worker = new Worker(new URL("./kernel-worker-node.js", import.meta.url), { workerData: start, execArgv: [] });
    let ended = false;
    const endWatch = watchStart((reason) => fail(new Error(reason)));
    const fail = (reason: Error): void => {
      endWatch();
      reject("code" in reason && isMissing(reason.code) ? missingWorker(reason) : reason);
      worker.terminate().catch(() => undefined);
    };
    worker.once("message", (message) => {
      if (message !== readyMessage) return fail(new Error("another script answered"));
      endWatch();
      worker.unref();
      resolve({
        post: (data) => worker.postMessage(data),
        isRunning: () => (ended ? false : hasLoop(worker)),
        async terminate() {
          await worker.terminate();
        },
      });
    });
    // Both stay: an error event that nobody hears would end the process.
    worker.on("error", fail);
    worker.once("exit", (code) => {
      ended = true;
      fail(new Error(`the worker ended with code ${code} before it was ready`));
    });
  });
}

const isMissing = (code: unknown): boolean => code === "MODULE_NOT_FOUND" || code === "ERR_MODULE_NOT_FOUND";

const missingWorker = (cause: Error): Error =>
  new Error(
    `${cause.message}; a bundle needs it beside itself: make insitu/kernel-worker-node.js an entry of its own`,
    {
      cause,
    },
  );

/**
 * True while a worker has its event loop. Its exit is an event, which a thread in the middle of a run does not hear; this it can ask: a loop
 * that is gone has a negative idle time. Undefined under Deno, which does not know, and under Bun, which complains where it is asked.
 */
function hasLoop({ performance: told }: Worker): boolean | undefined {
  const isTold = !("bun" in process.versions) && typeof told?.eventLoopUtilization === "function";
  return isTold ? told.eventLoopUtilization().idle >= 0 : undefined;
}

/** The machine's memory, or what a container may use of it. */
function memoryBytes(): number {
  const allowed = process.constrainedMemory();
  return allowed !== undefined && allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
}

let gpu: Promise<object | string> | undefined;

/** Dawn, from the optional package `webgpu`. One instance for the process: devices must not outlive it. */
async function openGpu(): Promise<object | string> {
  const name = "webgpu";
  let dawn: { create(flags: readonly string[]): object };
  try {
    dawn = (await import(name)) as typeof dawn;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    return `in Node it comes with the package webgpu, which cannot be loaded (${reason}); npm install webgpu`;
  }
  // Dawn hides float16 on NVIDIA's driver behind a switch.
  // Shaders write what they read of workgroup memory, so that it need not be zeroed before. Browsers zero it all the same.
  const features = ["vulkan_enable_f16_on_nvidia", "allow_unsafe_apis", "disable_workgroup_init"];
  return dawn.create([`enable-dawn-features=${features.join(",")}`]);
}

/** Opens models by path or file: URL; threads are worker_threads. */
export const nodePlatform: FolderPlatform = {
  open: openModel,
  exists: async (path) => (await found(path))?.isFile() ?? false,
  kindOf,
  foldersIn,
  openBeside,
  threads: { count: availableParallelism() },
  get memoryBytes() {
    return memoryBytes();
  },
  startKernelWorker,
  gpu: () => (gpu ??= openGpu()),
  awaitGpu: awaitCalmly,
  // Features of V8 that are not there yet have flags, which can be set while it runs.
  breathe: () => new Promise((resolve) => void setImmediate(resolve)),
  switchOn: (feature) => setFlagsFromString(`--experimental-${feature}`),
};
