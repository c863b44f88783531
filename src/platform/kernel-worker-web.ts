/** The thread behind webPlatform's kernel workers. */
import { readyMessage, serve, type WorkerStart } from "../backends/wasm/control.js";

// A module worker's global is not a window; of it only message and postMessage are used.
const scope = globalThis as {
  addEventListener(
    type: "message",
    listener: (event: MessageEvent<WorkerStart>) => void,
    options: { once: true },
  ): void;
  postMessage(message: string): void;
};

scope.addEventListener("message", ({ data }) => serve(data, () => scope.postMessage(readyMessage)), { once: true });
