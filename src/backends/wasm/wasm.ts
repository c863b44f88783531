/**
 * The WASM backend: compiled kernels on shared memories, with as many threads as are allowed. One set of memories and threads serves all
 * sessions that ask for the same, and ends soon after the last of them.
 */
import type { Platform, WorkerHandle } from "../../base/platform.js";
import type { KernelTable } from "../../graph/kernel.js";
import { kernelJobs, reservedBytes } from "../../wasm-kernels/exports.js";
import type { WasmKernel } from "../../wasm-kernels/wasm-kernel.js";
import type { Plan } from "../../plan/plan.js";
import { type Backend, type BackendSession, type Executable, mostThreads } from "../backend.js";
import { type Common, Commons } from "../common.js";
import { ProgramExecutor } from "../executor.js";
import { Turns } from "../turns.js";
import { Unavailable } from "../unavailable.js";
import { WasmEngine } from "./engine.js";
import { forecastPlan } from "./forecast.js";
import { loadKernelModule } from "./load-module.js";
import { WasmMemories } from "./memories.js";
import { WasmMemory } from "./memory.js";
import { KernelPool } from "./pool.js";
import { SessionMemory } from "./session-memory.js";
import { readWasmSettings } from "./settings.js";

/** Weights in the memories. */
interface CommonWeights {
  readonly memory: SessionMemory;
  readonly pieces: readonly Uint8Array[];
}

/** What all sessions with the same number of threads share. */
interface Machine {
  readonly memories: WasmMemories;
  /** Weights that sessions have in common, by where they come from. */
  readonly weights: Commons<CommonWeights>;
  readonly pool: KernelPool;
  readonly relaxed: boolean;
}

/** A machine that is starting or running, and how many sessions use it. */
interface Shared {
  readonly machine: Promise<Machine>;
  sessions: number;
  /** Ends the machine if no session comes. */
  ending?: ReturnType<typeof setTimeout>;
}

/** What a machine is started with. */
interface MachineOptions {
  readonly threads: number;
  readonly allowRelaxed: boolean;
  /** The most bytes of one memory. */
  readonly memoryBytes: number;
}

/** A memory that has grown beyond this ends with its last session, together with the threads; a smaller one waits a moment for the next. */
const keptBytes = 2 ** 26;

/** That moment, in milliseconds: sessions that follow each other need not start threads anew. */
const keptTime = 100;

/** Machines that are tried before a session is refused: one may have lost threads, and so may the one that takes its place. */
const mostStarts = 3;

const shared = new WeakMap<Platform, Map<string, Shared>>();

async function startMachine(platform: Platform, options: MachineOptions): Promise<Machine> {
  const { threads, allowRelaxed, memoryBytes } = options;
  const { module, relaxed } = await loadKernelModule(platform, allowRelaxed);
  const memory = new WasmMemory(reservedBytes, memoryBytes);
  const kernels = Object.keys(kernelJobs);
  const startWorker = (start: object): Promise<WorkerHandle> => platform.startKernelWorker(start);
  const pool = await KernelPool.start({ memory, module, kernels, threads, startWorker });
  const open = (): WasmMemory => {
    const further = new WasmMemory(reservedBytes, memory.mostBytes);
    pool.join(further);
    return further;
  };
  const memories = new WasmMemories(memory, open, memory.usedBytes);
  return { memories, weights: new Commons(), pool, relaxed };
}

/** A machine that a session is on. */
interface Joined {
  readonly machine: Machine;
  /** Keeps later sessions from it. */
  readonly forget: () => void;
  /** Gives it up. */
  readonly leave: () => void;
}

/** Joins the machine of this kind, starting it where there is none. */
async function join(platform: Platform, options: MachineOptions): Promise<Joined> {
  const running = shared.get(platform) ?? new Map<string, Shared>();
  shared.set(platform, running);
  const key = JSON.stringify(options);
  const entry: Shared = running.get(key) ?? { machine: startMachine(platform, options), sessions: 0 };
  running.set(key, entry);
  clearTimeout(entry.ending);
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
  const end = (): void => {
    if (entry.sessions > 0) return;
    forget();
    // Nobody waits for the workers to end, and there is nobody to tell if one does not.
    machine.pool.stop().catch(() => undefined);
  };
  const leave = (): void => {
    if (--entry.sessions > 0) return;
    if (machine.memories.byteLength > keptBytes || !machine.pool.isWhole) end();
    else entry.ending = withoutKeepingAlive(setTimeout(end, keptTime));
  };
  return { machine, forget, leave };
}

/** Joins a machine that has all its threads. Sessions on one that has lost some stay there; a new session gets what it asks for. */
async function joinWhole(platform: Platform, options: MachineOptions): Promise<Joined> {
  for (let starts = 0; starts < mostStarts; starts++) {
    const joined = await join(platform, options);
    if (joined.machine.pool.isWhole) return joined;
    joined.forget();
    joined.leave();
  }
  throw new Unavailable(
    "threads",
    "invalid-argument",
    `threads: ${options.threads} are not available here: workers ended as soon as they had started; ask for threads: 1`,
  );
}

/** In Node a process does not wait for the timer; elsewhere nothing does. */
function withoutKeepingAlive(timer: ReturnType<typeof setTimeout>): ReturnType<typeof setTimeout> {
  (timer as { unref?(): void }).unref?.();
  return timer;
}

/** The number of threads to start: what was asked for, or what the place has. Throws where it cannot be had. */
function threadsFor(platform: Platform, asked: number | undefined): number {
  const { count, reason } = platform.threads;
  const number = asked ?? Math.min(count, mostThreads);
  if (number > 1 && count === 1 && reason !== undefined)
    throw new Unavailable(
      "threads",
      "invalid-argument",
      `threads: ${number} are not available here: ${reason}; ask for threads: 1`,
    );
  return number;
}

function newWeights({ memories }: Machine, sizes: readonly number[]): CommonWeights {
  const memory = new SessionMemory(memories);
  return { memory, pieces: memory.allocateBytes(sizes) };
}

const sharedText = (taken: readonly Common<CommonWeights>[]): string[] =>
  taken.flatMap(({ sessions, contents: { pieces } }) => {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    return sessions < 2 ? [] : [`weights: ${bytes} bytes of one file are shared by ${sessions} sessions`];
  });

/** Makes the backend from the fast paths that operators have. */
export function wasmBackend(kernels: KernelTable<WasmKernel>): Backend {
  return {
    name: "wasm",
    hasKernel: (op) => kernels.has(op),
    forecast: (plan, inputs) => forecastPlan(plan, inputs, kernels),
    async open({ platform, threads, settings, batchInvariant = false }): Promise<BackendSession> {
      const options = { threads: threadsFor(platform, threads), ...readWasmSettings(settings) };
      const { machine, leave } = await joinWhole(platform, options);
      const turns = new Turns(() => platform.breathe());
      const choosing = { relaxed: machine.relaxed, batchInvariant };
      const engine = new WasmEngine(machine.memories, machine.pool, kernels, choosing, turns);
      const taken: Common<CommonWeights>[] = [];
      let filling = 0;
      let releasing: Promise<void> | undefined;
      return {
        async shareBytes(key, sizes) {
          const known = machine.weights.get(key);
          if (known !== undefined) known.sessions++;
          const weights =
            known ?? machine.weights.add(key, newWeights(machine, sizes), ({ memory }) => memory.release());
          while (!weights.isFilled && !weights.begin()) {
            // Two sessions that fill one file each must not wait for the other's.
            if (filling > 0) {
              weights.leave();
              return undefined;
            }
            await weights.ended();
          }
          taken.push(weights);
          const { pieces } = weights.contents;
          engine.countCommon(pieces);
          if (weights.isFilled) return { pieces };
          filling++;
          return { pieces, settle: (isFilled) => (filling--, weights.end(isFilled)) };
        },
        allocateBytes: (sizes) => engine.allocateBytes(sizes),
        describe: () => [...engine.describeMemories(), ...sharedText(taken), ...machine.pool.describe()],
        prepare: (plan: Plan): Executable => new ProgramExecutor(plan, engine),
        release: () =>
          (releasing ??= new Promise((done) =>
            turns.afterwards(() => {
              engine.release();
              for (const weights of taken.splice(0)) weights.leave();
              leave();
              done();
            }),
          )),
      };
    },
  };
}
