/** The thread behind webPlatform's kernel workers: the first message starts it, each later one brings a memory to join. */
import { KernelThread, type MemoryStart, readyMessage, type WorkerStart } from "../backends/wasm/control.js";

// A module worker's global is not a window; of it only message and postMessage are used.
const scope = globalThis as {
  addEventListener(type: "message", listener: (event: MessageEvent<WorkerStart | MemoryStart>) => void): void;
  postMessage(message: string): void;
};

let thread: KernelThread | undefined;
scope.addEventListener("message", ({ data }) => {
  if (thread === undefined) {
    thread = new KernelThread(data as WorkerStart);
    scope.postMessage(readyMessage);
  } else thread.join(data);
  thread.serve();
});
