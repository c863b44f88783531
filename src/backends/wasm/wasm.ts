/**
 * The WASM backend: compiled kernels on one shared memory, with as many threads as are allowed. One memory and one set of threads
 * serve all sessions that ask for the same number of threads; they are kept for the next session unless they hold much memory.
 */
import { InsituError } from "../../base/error.js";
import type { Platform, WorkerHandle } from "../../base/platform.js";
import { kernelJobs, reservedBytes } from "../../kernels/exports.js";
import type { Plan } from "../../plan/plan.js";
import type { Backend, BackendSession, Executable } from "../backend.js";
import { ProgramExecutor } from "../executor.js";
import { type KernelTable, WasmEngine } from "./engine.js";
import { loadKernelModule } from "./load-module.js";
import { WasmMemory } from "./memory.js";
import { KernelPool } from "./pool.js";

/** What all sessions with the same number of threads share. */
interface Machine {
  readonly memory: WasmMemory;
  readonly pool: KernelPool;
  readonly relaxed: boolean;
}

/** A machine that is starting or running, and how many sessions use it. */
interface Shared {
  readonly machine: Promise<Machine>;
  sessions: number;
}

/** More threads than this are a mistake. */
const mostThreads = 256;

/** A memory that has grown beyond this is let go of with its last session; a smaller one waits for the next. */
const keptBytes = 2 ** 26;

const shared = new WeakMap<Platform, Map<string, Shared>>();

async function startMachine(platform: Platform, threads: number, allowRelaxed: boolean): Promise<Machine> {
  const { module, relaxed } = await loadKernelModule(platform, allowRelaxed);
  const memory = new WasmMemory(reservedBytes);
  const kernels = Object.keys(kernelJobs);
  const startWorker = (start: object): Promise<WorkerHandle> => platform.startKernelWorker(start);
  const pool = await KernelPool.start({ memory, module, kernels, threads, startWorker });
  return { memory, pool, relaxed };
}

/** Joins the machine of this kind, starting it where there is none. `leave` gives it up. */
async function join(
  platform: Platform,
  threads: number,
  allowRelaxed: boolean,
): Promise<{ readonly machine: Machine; readonly leave: () => void }> {
  const running = shared.get(platform) ?? new Map<string, Shared>();
  shared.set(platform, running);
  const key = `${threads} ${allowRelaxed}`;
  const entry = running.get(key) ?? { machine: startMachine(platform, threads, allowRelaxed), sessions: 0 };
  running.set(key, entry);
  const forget = (): void => {
    if (running.get(key) === entry) running.delete(key);
  };
  entry.sessions++;
  let machine: Machine;
  try {
    machine = await entry.machine;
  } catch (error) {
    forget();
    throw error;
  }
  return {
    machine,
    leave: () => {
      if (--entry.sessions > 0 || machine.memory.buffer.byteLength <= keptBytes) return;
      forget();
      // Nobody waits for the workers to end, and there is nobody to tell if one does not.
      machine.pool.stop().catch(() => undefined);
    },
  };
}

/** The number of threads to start: what was asked for, or what the place has. Throws where it cannot be had. */
function threadsFor(platform: Platform, asked: number | undefined): number {
  const { count, reason } = platform.threads;
  const number = asked ?? Math.min(count, mostThreads);
  if (number > 1 && count === 1 && reason !== undefined)
    throw new InsituError("invalid-argument", `threads: ${number} cannot be had here: ${reason}; ask for threads: 1`);
  if (number > mostThreads)
    throw new InsituError("invalid-argument", `option threads must be at most ${mostThreads}, got ${number}`);
  return number;
}

/** Makes the backend from the fast paths that operators have. */
export function wasmBackend(kernels: KernelTable): Backend {
  return {
    name: "wasm",
    async open({ platform, threads, relaxedSimd = true }): Promise<BackendSession> {
      const { machine, leave } = await join(platform, threadsFor(platform, threads), relaxedSimd);
      const engine = new WasmEngine(machine.memory, machine.pool, kernels, machine.relaxed);
      let released = false;
      return {
        allocateBytes: (bytes) => engine.allocateBytes(bytes),
        prepare: (plan: Plan): Executable => new ProgramExecutor(plan, engine),
        release() {
          if (released) return;
          released = true;
          engine.release();
          leave();
        },
      };
    },
  };
}
