/** How much of a GPU's memory is taken, by whomever: what NVIDIA's own tool says, where it is installed. Nobody else tells it of every runtime alike. */
import { execFile } from "node:child_process";

const question = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"];

/** Bytes that are taken on all GPUs of the machine; undefined where nobody tells. */
function takenBytes(): Promise<number | undefined> {
  return new Promise((resolve) => {
    execFile("nvidia-smi", question, (error, stdout) => {
      const taken = stdout
        .trim()
        .split("\n")
        .reduce((sum, line) => sum + Number(line) * 2 ** 20, 0);
      resolve(error === null && taken > 0 ? taken : undefined);
    });
  });
}

/**
 * What one process takes on the device: the sum of what came to be taken while it did something. It holds where processes work one after the other
 * and nobody else uses the GPU.
 */
export class DeviceMemory {
  /** Undefined where nobody tells. */
  bytes: number | undefined;

  /** Does some work of the process, and counts what it takes. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const before = await takenBytes();
    const done = await work();
    const after = before === undefined ? undefined : await takenBytes();
    if (before !== undefined && after !== undefined) this.bytes = (this.bytes ?? 0) + after - before;
    return done;
  }
}
