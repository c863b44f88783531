/** fetch as insitu's platform, for pages and workers. Models and weight files are read as they arrive. */
import { InsituError } from "../base/error.js";
import type { FolderPlatform, Platform, ReadableFile, WorkerHandle } from "../base/platform.js";
import { readyMessage } from "../backends/wasm/control.js";
import { locationSegments } from "./location.js";
import { absenceOf, openInRanges, openToRead } from "./web-file.js";

let baseUrl: string | undefined;

/** Sets what relative URLs are relative to, for a worker that works for a page: its own script says nothing of where the page is. */
export function setBaseUrl(url: string): void {
  baseUrl = url;
}

/** The URL relative to the page. */
export function resolveUrl(path: string): URL {
  try {
    return new URL(path, baseUrl ?? globalThis.document?.baseURI ?? globalThis.location?.href);
  } catch (cause) {
    throw new InsituError("invalid-argument", `${JSON.stringify(path)} is not a URL`, { cause });
  }
}

async function open(path: string): Promise<ReadableFile> {
  const url = resolveUrl(path).href;
  try {
    return await openToRead(url);
  } catch (error) {
    throw notFetched(url, error);
  }
}

const notFetched = (url: string, error: unknown): InsituError =>
  new InsituError(
    "invalid-argument",
    `${url} cannot be fetched: ${error instanceof Error ? error.message : String(error)}`,
    { cause: error },
  );

/** Why there is no file at a URL; undefined where there is one. Throws where nothing answers: then nobody knows. */
async function absence(path: string): Promise<string | undefined> {
  const { href } = resolveUrl(path);
  try {
    return await absenceOf(href);
  } catch (error) {
    throw notFetched(href, error);
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
  return openInRanges(urlBeside(modelPath, location).href);
}

/** Milliseconds in which a worker must answer. One that loads some other script says nothing at all. */
const mostStartTime = 60_000;

/** Starts a kernel worker. Rejects, never hangs, where its script is missing, blocked or another one. */
function startKernelWorker(start: object): Promise<WorkerHandle> {
  return new Promise((resolve, reject) => {
    let worker: Worker | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    const fail = (reason: string, cause?: unknown): void => {
      clearTimeout(timer);
      ended = true;
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
          post: (message) => started.postMessage(message),
          isRunning: () => (ended ? false : undefined),
          async terminate() {
            ended = true;
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

/** A message to oneself comes at once, where timers wait for milliseconds. */
function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(undefined);
  });
}

/** Fetches models and weights by URL; threads are module workers. */
export const webPlatform: FolderPlatform = {
  open,
  exists: async (path) => (await absence(path)) === undefined,
  whyAbsent: async (path) => `${resolveUrl(path).href}: ${(await absence(path)) ?? "it is there now"}`,
  openBeside,
  get threads() {
    return threads();
  },
  startKernelWorker,
  gpu: async () => globalThis.navigator?.gpu ?? "the browser has no WebGPU, or the page is not secure",
  breathe,
  switchOn() {},
};
