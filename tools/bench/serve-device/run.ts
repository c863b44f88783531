/**
 * `insitu bench serve --backend webgpu`: a server of insitu's on a device, `generate` and `generateBatch` in this process and, where it is installed,
 * a server of llama.cpp's, asked the same in turn, load by load.
 */
import { InsituError } from "#insitu/base/error.js";
import type { BackendName } from "#insitu/entry/backends.js";
import { CausalLM } from "#insitu/entry/node.js";
import { awake } from "../device/awake.js";
import { deviceName } from "../device/gpu.js";
import { insituVersion } from "#insitu/cli/version.js";
import { describeMachine } from "../report.js";
import { howToInstallLlama, llamaVersion } from "../serve/llama-server.js";
import { seededRandom } from "../serve/seeded-random.js";
import { serveCommand, ServerProcesses } from "../serve/server-processes.js";
import { startLlamas } from "./llamas.js";
import { type DeviceLoad, fullServeSizes, loadText, longestOf, type ServerSizes, smallServeSizes } from "./loads.js";
import { measureLoad, type Turn } from "./measure-load.js";
import { type DeviceServeRow, rowsOf } from "./rows.js";
import { givenModel, madeModel, type ServedModel } from "./served-model.js";
import { modelTeller, serverTeller, type Teller } from "./teller.js";

/** What is measured. */
interface DeviceServeOptions {
  /** The command line's own program and arguments. */
  readonly program: readonly string[];
  readonly command: string;
  readonly backend: BackendName;
  /** A folder to be served in place of a model that is made. */
  readonly model: string | undefined;
  /** How the server is started, where it is not as usual. */
  readonly server: Partial<ServerSizes>;
  readonly only: string | undefined;
  readonly rounds: number | undefined;
  readonly alone: boolean;
  /** Tiny sizes: to see that everything works. */
  readonly small: boolean;
  readonly onProgress: (text: string) => void;
}

/** How often one who was asked chose as `generate` does. */
interface Agreement {
  readonly who: string;
  readonly runtime: string;
  readonly compared: number;
  readonly same: number;
}

/** All that was found. */
export interface DeviceServeReport {
  readonly command: string;
  /** True for tiny sizes, whose times mean nothing. */
  readonly quick: boolean;
  readonly backend: BackendName;
  readonly machine: ReturnType<typeof describeMachine>;
  readonly versions: Readonly<Record<string, string>>;
  readonly model: string;
  readonly server: ServerSizes;
  readonly rounds: number;
  /** Of how many prompts the next token of each server is that of `generate`. */
  readonly agreement: readonly Agreement[];
  readonly rows: readonly DeviceServeRow[];
  /** Loads that were left out, and why. */
  readonly skipped: readonly { readonly load: string; readonly reason: string }[];
  /** Peers that could not do the work here, and why. */
  readonly failed: readonly { readonly name: string; readonly problem: string }[];
  readonly missing: readonly { readonly name: string; readonly install: string }[];
}

const seed = 20_263;

/** Prompts whose next token must be the same, and how many tokens they have. Random weights have close calls: so many may differ. */
const [compared, comparedLength, mayDiffer] = [8, 8, 2];

/** True if it makes what `generate` makes. */
export const agrees = ({ compared: all, same }: Agreement): boolean => all - same <= mayDiffer;

/** Measures. */
export async function runDeviceServeBench(options: DeviceServeOptions): Promise<DeviceServeReport> {
  const { backend, onProgress, only = "" } = options;
  const sizes = options.small ? smallServeSizes : fullServeSizes;
  const chosen = sizes.loads.filter((load) => loadText(load).includes(only));
  if (chosen.length === 0)
    throw new InsituError(
      "invalid-argument",
      `insitu bench serve --backend webgpu has no load with "${only}" in its name; it has ${sizes.loads.map(loadText).join("; ")}`,
    );
  const gpu = backend === "webgpu" ? await deviceName() : null;
  onProgress("making the model: random weights");
  const model = options.model === undefined ? madeModel(sizes.device) : givenModel(options.model);
  const servers = new ServerProcesses();
  let lm: CausalLM | undefined;
  try {
    const server = serverSizes({ ...sizes.server, ...options.server }, model, options.server.context !== undefined);
    const loads = chosen.filter((load) => longestOf(load) <= server.context);
    const skipped = chosen.flatMap((load) => (loads.includes(load) ? [] : [tooLong(load, server.context)]));
    onProgress("starting the server: insitu serve");
    const target = await servers.start(
      "insitu",
      serveCommand(options.program, serveArguments(backend, model, server)),
      name,
    );
    onProgress("loading the model: generate");
    lm = await CausalLM.load(model.folder, { backend, context: server.context });
    const [ours, generate] = [serverTeller("insitu serve", "insitu", target), modelTeller(lm)];
    const version = options.alone || model.llama === undefined ? undefined : llamaVersion();
    const llamas = await startLlamas(version === undefined ? undefined : model.llama, loads, servers);
    const promptOf = prompts(model.vocabulary);
    onProgress("comparing what the server makes with generate");
    // The words of a model that is made are its tokens' numbers, and so are llama.cpp's texts.
    const wordOf = (text: string): string => (model.llama === undefined ? text : text.replace(/\D/g, ""));
    const asked = [ours, ...loads.slice(0, 1).flatMap((load) => llamas.tellers(load))];
    const agreement = await agreementOf(generate, asked, promptOf, wordOf);
    const rounds = options.rounds ?? sizes.rounds;
    const rows: DeviceServeRow[] = [];
    for (const load of loads) {
      const who = load.kind === "step" ? [generate] : [generate, ours, ...llamas.tellers(load)];
      const turns: Turn[][] = who.map(() => []);
      for (let round = 1 - sizes.warmUps; round <= rounds; round++)
        for (const [at, teller] of who.entries()) {
          const counts = round > 0;
          onProgress(`${loadText(load)}: ${counts ? `round ${round} of ${rounds}` : "warming up"}, ${teller.name}`);
          const turn = (): Promise<Turn> => measureLoad(teller, load, promptOf);
          const done = await (counts ? awake(turn, sizes.device.wakeMilliseconds) : turn());
          if (counts) turns[at].push(done);
        }
      rows.push(...rowsOf(load, who, turns));
    }
    return {
      command: options.command,
      quick: options.small,
      backend,
      machine: describeMachine(gpu),
      versions: { insitu: insituVersion(), ...(version === undefined ? {} : { "node-llama-cpp": version }) },
      model: model.description,
      server,
      rounds,
      agreement,
      rows,
      skipped,
      failed: llamas.failed,
      missing:
        options.alone || model.llama === undefined || version !== undefined
          ? []
          : [{ name: "node-llama-cpp", install: howToInstallLlama }],
    };
  } finally {
    servers.end();
    await lm?.release();
    model.remove();
  }
}

/** What the model is called in requests. */
const name = "measured";

const serveArguments = (backend: BackendName, { folder }: ServedModel, sizes: ServerSizes): readonly string[] => {
  const given = { backend, model: folder, name, context: sizes.context, blocks: sizes.blocks };
  return Object.entries({ ...given, "max-running": sizes.maxRunning }).flatMap(([option, value]) => [
    `--${option}`,
    String(value),
  ]);
};

/** A context that was not asked for is no longer than the model was made for. */
const serverSizes = (sizes: ServerSizes, { positions = Infinity }: ServedModel, asked: boolean): ServerSizes =>
  asked ? sizes : { ...sizes, context: Math.min(sizes.context, positions) };

const tooLong = (load: DeviceLoad, context: number): DeviceServeReport["skipped"][number] => ({
  load: loadText(load),
  reason: `a text of ${longestOf(load)} tokens does not fit a context of ${context}; --context asks for a longer one`,
});

/** Makes prompts of random tokens, each of them another one. The first and last tokens of vocabularies often mean something. */
function prompts(vocabulary: number): (length: number) => readonly number[] {
  const random = seededRandom(seed);
  return (length) => Array.from({ length }, () => 3 + Math.floor(random() * (vocabulary - 10)));
}

/** Of how many prompts others have the next token that the first one has. */
async function agreementOf(
  first: Teller,
  others: readonly Teller[],
  promptOf: (length: number) => readonly number[],
  wordOf: (text: string) => string,
): Promise<Agreement[]> {
  const same = others.map(() => 0);
  const wordBy = async (teller: Teller, prompt: readonly number[]): Promise<string> => {
    const { text, error } = await teller.stream(prompt, 1);
    if (error !== undefined && teller.runtime === "insitu")
      throw new InsituError("invalid-argument", `insitu bench serve: ${teller.name}, a text of one token: ${error}`);
    return wordOf(text);
  };
  for (let at = 0; at < compared; at++) {
    const prompt = promptOf(comparedLength);
    const wanted = await wordBy(first, prompt);
    for (const [other, teller] of others.entries()) if ((await wordBy(teller, prompt)) === wanted) same[other]++;
  }
  return others.map(({ name: who, runtime }, at) => ({ who, runtime, compared, same: same[at] }));
}
