/** The thread behind nodePlatform's kernel workers. */
import { parentPort, workerData } from "node:worker_threads";
import { readyMessage, serve, type WorkerStart } from "../backends/wasm/control.js";

serve(workerData as WorkerStart, () => parentPort?.postMessage(readyMessage));
