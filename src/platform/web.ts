/** fetch as insitu's platform, for pages and workers. Models are fetched whole, weight files in ranges where the server allows. */
import { InsituError } from "../base/error.js";
import type { FolderPlatform, Platform, ReadableFile, WorkerHandle } from "../base/platform.js";
import { readyMessage } from "../backends/wasm/control.js";
import { locationSegments } from "./location.js";

/** A gap between two reads that is cheaper to read over than to ask again for. */
const smallGap = 2 ** 20;

class MemoryFile implements ReadableFile {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get size(): number {
    return this.#bytes.length;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    const source = this.#bytes.subarray(offset, offset + target.length);
    if (source.length < target.length)
      throw new Error(`${offset + target.length} bytes were asked for, there are ${this.size}`);
    target.set(source);
  }

  async close(): Promise<void> {}
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** A file read through ranged requests. One request serves all reads that follow each other closely. */
class RangedFile implements ReadableFile {
  readonly size: number;
  readonly #url: string;
  #reader: Reader | undefined;
  /** Where the unread part of the response starts. */
  #position = 0;
  #pending: Uint8Array = new Uint8Array();

  constructor(url: string, size: number) {
    this.#url = url;
    this.size = size;
  }

  async read(offset: number, target: Uint8Array): Promise<void> {
    const gap = offset - this.#position;
    if (this.#reader === undefined || gap < 0 || gap > smallGap) await this.#request(offset);
    else await this.#take(gap, undefined);
    await this.#take(target.length, target);
  }

  async #request(offset: number): Promise<void> {
    await this.close();
    const response = await request(this.#url, { headers: { Range: `bytes=${offset}-` } });
    if (response.status !== 206 || response.body === null)
      throw new Error(`${this.#url} no longer answers ranged requests (status ${response.status})`);
    this.#reader = response.body.getReader();
    this.#position = offset;
  }

  /** Moves `count` bytes of the response into `target`, or drops them. */
  async #take(count: number, target: Uint8Array | undefined): Promise<void> {
    for (let at = 0; at < count;) {
      if (this.#pending.length === 0) {
        const { done, value } = await this.#reader!.read();
        if (done)
          throw new Error(
            `${this.#url} ended after ${this.#position} bytes, ${this.#position + count - at} were asked for`,
          );
        this.#pending = value;
      }
      const part = this.#pending.subarray(0, count - at);
      target?.set(part, at);
      this.#pending = this.#pending.subarray(part.length);
      this.#position += part.length;
      at += part.length;
    }
  }

  async close(): Promise<void> {
    const reader = this.#reader;
    this.#reader = undefined;
    this.#pending = new Uint8Array();
    await reader?.cancel().catch(() => undefined);
  }
}

async function request(url: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (response.ok) return response;
  await response.body?.cancel();
  throw new Error(`${url} answered ${response.status} ${response.statusText}`.trimEnd());
}

const whole = async (response: Response): Promise<ReadableFile> =>
  new MemoryFile(new Uint8Array(await response.arrayBuffer()));

/** The URL relative to the page. */
function resolveUrl(path: string): URL {
  try {
    return new URL(path, globalThis.document?.baseURI ?? globalThis.location?.href);
  } catch (cause) {
    throw new InsituError("invalid-argument", `${JSON.stringify(path)} is not a URL`, { cause });
  }
}

async function open(path: string): Promise<ReadableFile> {
  const url = resolveUrl(path).href;
  try {
    return await whole(await request(url));
  } catch (error) {
    throw new InsituError(
      "invalid-argument",
      `${url} cannot be fetched: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}

/** The URL of a location in the model's folder; throws `external-data` for everything else. */
export function urlBeside(modelPath: string, location: string): URL {
  const model = resolveUrl(modelPath);
  if (model.protocol === "blob:" || model.protocol === "data:") {
    throw new InsituError(
      "external-data",
      `a ${model.protocol} URL has no folder: pass ${JSON.stringify(location)} in externalData`,
    );
  }
  const folder = new URL(".", model);
  // Encoded, so that %2e, ? and # are part of a name and nothing else.
  const url = new URL(
    locationSegments(location)
      .map((segment) => encodeURIComponent(segment))
      .join("/"),
    folder,
  );
  if (url.origin !== folder.origin || !url.pathname.startsWith(folder.pathname) || url.protocol !== folder.protocol) {
    throw new InsituError(
      "external-data",
      `location ${JSON.stringify(location)} leads outside the model's folder, to ${url.href}`,
    );
  }
  return url;
}

async function openBeside(modelPath: string, location: string): Promise<ReadableFile> {
  const url = urlBeside(modelPath, location).href;
  const response = await fetch(url, { headers: { Range: "bytes=0-0" } });
  // An empty file has no first byte to give.
  if (!response.ok) {
    await response.body?.cancel();
    return whole(await request(url));
  }
  // A server without ranges answers with everything; one that hides Content-Range does not tell the size.
  if (response.status !== 206) return whole(response);
  const size = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1];
  await response.body?.cancel();
  return size === undefined ? whole(await request(url)) : new RangedFile(url, Number(size));
}

/** Milliseconds in which a worker must answer. One that loads some other script says nothing at all. */
const mostStartTime = 60_000;

/** Starts a kernel worker. Rejects, never hangs, where its script is missing, blocked or another one. */
function startKernelWorker(start: object): Promise<WorkerHandle> {
  return new Promise((resolve, reject) => {
    let worker: Worker | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const fail = (reason: string, cause?: unknown): void => {
      clearTimeout(timer);
      worker?.terminate();
      // A bundle of another format than ES modules has no import.meta.url.
      const place = import.meta.url === undefined ? "which this bundle's format does not tell" : import.meta.url;
      reject(
        new Error(`${reason}: kernel-worker-web.js must be served beside the script that starts it, ${place}`, {
          cause,
        }),
      );
    };
    try {
      // The expression stays literal: bundlers rewrite it.
      worker = new Worker(new URL("./kernel-worker-web.js", import.meta.url), { type: "module" });
      const started = worker;
      timer = setTimeout(() => fail(`no answer in ${mostStartTime / 1000} s`), mostStartTime);
      started.addEventListener("message", ({ data }) => {
        if (data !== readyMessage) return fail("another script answered");
        clearTimeout(timer);
        resolve({
          async terminate() {
            started.terminate();
          },
        });
      });
      started.addEventListener("messageerror", () => fail("its answer could not be read"));
      started.addEventListener("error", (event) => {
        event.preventDefault();
        fail(event.message || "its script could not be loaded", event.error);
      });
      started.postMessage(start);
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error), error);
    }
  });
}

/** A page that is not cross-origin isolated may not share memory with workers: one thread. */
const threads = (): Platform["threads"] =>
  globalThis.crossOriginIsolated
    ? { count: globalThis.navigator?.hardwareConcurrency ?? 1 }
    : { count: 1, reason: "the page is not cross-origin isolated (COOP and COEP headers), so memory cannot be shared" };

/** Fetches models and weights by URL; threads are module workers. */
export const webPlatform: FolderPlatform = {
  open,
  exists: async (path) => (await fetch(resolveUrl(path), { method: "HEAD" }).catch(() => undefined))?.ok ?? false,
  openBeside,
  get threads() {
    return threads();
  },
  startKernelWorker,
  allowRelaxedSimd() {},
};
