/** The thread behind nodePlatform's kernel workers. */
import { parentPort, workerData } from "node:worker_threads";
import { KernelThread, type MemoryStart, readyMessage, type WorkerStart } from "../backends/wasm/control.js";

const thread = new KernelThread(workerData as WorkerStart);
parentPort?.on("message", (memory: MemoryStart) => {
  thread.join(memory);
  thread.serve();
});
parentPort?.postMessage(readyMessage);
thread.serve();
